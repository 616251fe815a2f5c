package compare

import (
	"bytes"
	"cmp"
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	ucli "github.com/urfave/cli/v2"

	"gnnsched/cmd/internal/recording"
	"gnnsched/internal/choice"
	"gnnsched/internal/exit"
	"gnnsched/scheduler/autoscale"
	"gnnsched/scheduler/replay"
	"gnnsched/scheduler/server"
)

// setting is an autoscaler with what it may start. It can be sent to workers.
type setting struct {
	Name   string // "" if there is only one
	Scaler string // "" without an autoscaler and without prices
	Types  []byte
	Pools  []byte
	Change string // what it changes of the first setting, in words
}

// none is the --autoscaler that leaves nodes as recorded.
const none = "none"

// variant holds the options that may follow a name in --autoscaler, as in name:what@eager+beside+beside.
type variant struct{ what, eager, beside string }

// What may stand beside an autoscaler.
const (
	deletionCosts = "deletion-costs" // replay.Scaling.DeletionCosts
	defrag        = "defrag"         // autoscale.NewConsolidator
)

// has reports whether a word stands beside the autoscaler.
func (v variant) has(word string) bool { return slices.Contains(strings.Split(v.beside, "+"), word) }

// known reports whether all words beside the autoscaler are known.
func (v variant) known() bool {
	return v.beside == "" || !slices.ContainsFunc(strings.Split(v.beside, "+"), func(word string) bool {
		return word != deletionCosts && word != defrag
	})
}

// parted divides a value of --autoscaler into its name and its options.
func parted(scaler string) (name string, v variant) {
	scaler, beside, _ := strings.Cut(scaler, "+")
	bare, eager, _ := strings.Cut(scaler, "@")
	name, what, _ := strings.Cut(bare, ":")
	return name, variant{what, eager, beside}
}

// of returns the value of --autoscaler for a name and options.
func (v variant) of(name string) string {
	if v.what != "" {
		name += ":" + v.what
	}
	if v.eager != "" {
		name += "@" + v.eager
	}
	if v.beside != "" {
		name += "+" + v.beside
	}
	return name
}

// constructor makes a scaler.
type constructor func(v variant, c *autoscale.Catalog, seed uint64) (autoscale.Scaler, error)

// autoscalers are those that --autoscaler names.
var autoscalers = map[string]constructor{
	none: nil,
	"cluster-autoscaler": func(v variant, c *autoscale.Catalog, seed uint64) (autoscale.Scaler, error) {
		below := autoscale.Utilised
		if v.eager != "" {
			var err error
			if below, err = strconv.ParseFloat(v.eager, 64); err != nil || !(below >= 0 && below <= 1) {
				return nil, fmt.Errorf("%q is no utilisation of 0 to 1 below which nodes go", v.eager)
			}
		}
		return autoscale.NewClusterAutoscaler(c, cmp.Or(v.what, autoscale.Expanders[0]), below, seed)
	},
}

// AutoscalerFlags are the flags about autoscalers.
func AutoscalerFlags() []ucli.Flag {
	return []ucli.Flag{
		&ucli.StringSliceFlag{Name: "autoscaler", Usage: "`AUTOSCALER` that starts and removes nodes: " + strings.Join(autoscalerNames(), ", ") +
			"; may be given several times"},
		&ucli.Float64Flag{Name: "at-most-waiting", DefaultText: "no search, but as many as now with plan --nodes", Usage: "search over settings of each autoscaler: the cheapest at which at most this `NUMBER` of pods waits"},
		&ucli.StringFlag{Name: "types", Usage: "`FILE` with types of machines and prices, such as Karpenter's instance_types.json"},
		&ucli.StringSliceFlag{Name: "nodepools", Usage: "`FILE` with NodePools; may be given several times, to compare them"},
	}
}

// autoscalerNames returns the autoscalers, with expanders, and what may stand beside one.
func autoscalerNames() []string {
	out := slices.Collect(maps.Keys(autoscalers))
	for _, e := range autoscale.Expanders[1:] {
		out = append(out, "cluster-autoscaler:"+e)
	}
	slices.Sort(out)
	return append(out, "cluster-autoscaler+"+deletionCosts, "cluster-autoscaler+"+defrag)
}

// settings returns the autoscalers of the flags: each with each file of NodePools, before what a search tries near it. Without --autoscaler
// there is one without a name.
func settings(c *ucli.Context, s *search) ([]setting, error) {
	chosen, pools := c.StringSlice("autoscaler"), c.StringSlice("nodepools")
	if len(chosen) == 0 {
		if c.IsSet("types") || len(pools) > 0 || s != nil {
			return nil, exit.Usagef(
				"--types, --nodepools and --at-most-waiting are for an autoscaler; add --autoscaler, with %s for nodes as recorded", none)
		}
		return []setting{{}}, nil
	}
	if s != nil && !slices.ContainsFunc(chosen, func(name string) bool { return name != none }) {
		return nil, exit.Usagef("--autoscaler %s has no settings to search; name another", none)
	}
	types := autoscale.ExampleTypes
	if path := c.String("types"); path != "" {
		var err error
		if types, err = os.ReadFile(path); err != nil {
			return nil, exit.New(exit.Usage, fmt.Errorf("--types: %w", err), "docs/how-to/cost.md shows such a file")
		}
	}
	if len(pools) == 0 {
		pools = []string{""}
	}
	var out []setting
	for _, name := range chosen {
		for _, path := range pools {
			x := setting{Name: name, Scaler: name, Types: types}
			if path != "" {
				var err error
				if x.Pools, err = os.ReadFile(path); err != nil {
					return nil, exit.New(exit.Usage, fmt.Errorf("--nodepools: %w", err), "docs/how-to/cost.md shows such a file")
				}
			}
			if len(pools) > 1 {
				x.Name += " " + strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
			}
			if len(out) > 0 {
				x.Change = "take " + x.Name
			}
			near, err := s.near(x)
			for _, x := range append([]setting{x}, near...) {
				if err == nil {
					_, err = x.scaling()
				}
				switch i := slices.IndexFunc(out, func(o setting) bool { return o.Name == x.Name }); {
				case i < 0:
					out = append(out, x)
				case !bytes.Equal(out[i].Pools, x.Pools):
					return nil, exit.Usagef("--nodepools: two different files would both be called %q; rename one", x.Name)
				}
			}
			if err != nil {
				return nil, exit.New(exit.Usage, err, "docs/how-to/cost.md shows the files")
			}
		}
	}
	if len(out) == 1 && s == nil {
		out[0].Name = ""
	}
	return out, nil
}

// scaling returns the setting for a replay; nil without an autoscaler.
func (s setting) scaling() (*replay.Scaling, error) {
	if s.Scaler == "" {
		return nil, nil
	}
	name, v := parted(s.Scaler)
	start, known := autoscalers[name]
	if !known || name == none && v != (variant{}) || !v.known() {
		return nil, choice.Unknown("autoscaler", s.Scaler, autoscalerNames())
	}
	catalog, err := autoscale.Read(s.Types, s.Pools)
	if err != nil {
		return nil, err
	}
	out := &replay.Scaling{Catalog: catalog, DeletionCosts: v.has(deletionCosts)}
	if start == nil {
		return out, nil
	}
	if _, err := start(v, catalog, 1); err != nil {
		return nil, fmt.Errorf("--autoscaler %s: %w", s.Scaler, err)
	}
	out.New = func(c *autoscale.Catalog, seed uint64) (autoscale.Scaler, error) {
		s, err := start(v, c, seed)
		if y, yields := s.(autoscale.Yielder); err == nil && yields && v.has(defrag) {
			return autoscale.NewConsolidator(y, c), nil
		}
		return s, err
	}
	return out, nil
}

// contender is a row to be: a profile with an autoscaler.
type contender struct {
	profile int // of player.chosen
	setting setting
}

// name returns what the row is called.
func (c contender) name(chosen []server.Profile) string {
	profile := chosen[c.profile].SchedulerName
	switch {
	case c.setting.Name == "":
		return profile
	case len(chosen) == 1:
		return c.setting.Name
	}
	return profile + ", " + c.setting.Name
}

// change says what the row changes of the first one.
func (c contender) change(chosen []server.Profile) string {
	if c.profile == 0 {
		return c.setting.Change
	}
	return c.setting.changed("schedule with " + chosen[c.profile].SchedulerName).Change
}

// errNoPrices says why --prices stands alone.
var errNoPrices = errors.New("--prices is for nodes as recorded; with --autoscaler, prices are those of --types")

// windowOf returns the window of the flags. Where an autoscaler starts the nodes of every row, the record needs none.
func (p *player) windowOf(c *ucli.Context) replay.Window {
	w := recording.Window(c)
	w.Nodeless = !slices.ContainsFunc(p.contenders, func(x contender) bool { return x.setting.Scaler == "" || x.setting.Scaler == none })
	return w
}
