package compare

import (
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	ucli "github.com/urfave/cli/v2"

	"gnnsched/cmd/internal/recording"
	"gnnsched/internal/choice"
	"gnnsched/internal/exit"
	"gnnsched/scheduler/autoscale"
	"gnnsched/scheduler/replay"
)

// setting is an autoscaler with what it may start. It can be sent to workers.
type setting struct {
	Name   string // "" if there is only one
	Scaler string // "" without an autoscaler and without prices
	Types  []byte
	Pools  []byte
}

// none is the --autoscaler that leaves nodes as recorded.
const none = "none"

// constructor makes a scaler. what is the part of --autoscaler behind the colon.
type constructor func(what string, c *autoscale.Catalog, seed uint64) (autoscale.Scaler, error)

// autoscalers are those that --autoscaler names.
var autoscalers = map[string]constructor{
	none: nil,
	"cluster-autoscaler": func(expander string, c *autoscale.Catalog, seed uint64) (autoscale.Scaler, error) {
		if expander == "" {
			expander = autoscale.Expanders[0]
		}
		return autoscale.NewClusterAutoscaler(c, expander, seed)
	},
}

func autoscalerFlags() []ucli.Flag {
	return []ucli.Flag{
		&ucli.StringSliceFlag{Name: "autoscaler", Usage: "`AUTOSCALER` that starts and removes nodes: " + strings.Join(autoscalerNames(), ", ") +
			"; may be given several times"},
		&ucli.StringFlag{Name: "types", Usage: "`FILE` with types of machines and prices, such as Karpenter's instance_types.json"},
		&ucli.StringSliceFlag{Name: "nodepools", Usage: "`FILE` with NodePools; may be given several times, to compare them"},
	}
}

// autoscalerNames returns the autoscalers, with expanders.
func autoscalerNames() []string {
	var out []string
	for name := range autoscalers {
		out = append(out, name)
	}
	for _, e := range autoscale.Expanders[1:] {
		out = append(out, "cluster-autoscaler:"+e)
	}
	slices.Sort(out)
	return out
}

// settings returns the autoscalers of the flags: each with each file of NodePools. Without --autoscaler there is one without a name.
func settings(c *ucli.Context) ([]setting, error) {
	chosen, pools := c.StringSlice("autoscaler"), c.StringSlice("nodepools")
	if len(chosen) == 0 {
		if c.IsSet("types") || len(pools) > 0 {
			return nil, exit.Usagef("--types and --nodepools are for an autoscaler; add --autoscaler, with %s for nodes as recorded", none)
		}
		return []setting{{}}, nil
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
			s := setting{Name: name, Scaler: name, Types: types}
			if path != "" {
				var err error
				if s.Pools, err = os.ReadFile(path); err != nil {
					return nil, exit.New(exit.Usage, fmt.Errorf("--nodepools: %w", err), "docs/how-to/cost.md shows such a file")
				}
			}
			if len(pools) > 1 {
				s.Name += " " + strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
			}
			if _, err := s.scaling(); err != nil {
				return nil, exit.New(exit.Usage, err, "docs/how-to/cost.md shows the files")
			}
			out = append(out, s)
		}
	}
	if len(out) == 1 {
		out[0].Name = ""
	}
	return out, nil
}

// scaling returns the setting for a replay; nil without an autoscaler.
func (s setting) scaling() (*replay.Scaling, error) {
	if s.Scaler == "" {
		return nil, nil
	}
	name, what, _ := strings.Cut(s.Scaler, ":")
	start, known := autoscalers[name]
	if !known || name == none && what != "" {
		return nil, choice.Unknown("autoscaler", s.Scaler, autoscalerNames())
	}
	catalog, err := autoscale.Read(s.Types, s.Pools)
	if err != nil {
		return nil, err
	}
	out := &replay.Scaling{Catalog: catalog}
	if start == nil {
		return out, nil
	}
	if _, err := start(what, catalog, 1); err != nil {
		return nil, fmt.Errorf("--autoscaler %s: %w", s.Scaler, err)
	}
	out.New = func(c *autoscale.Catalog, seed uint64) (autoscale.Scaler, error) { return start(what, c, seed) }
	return out, nil
}

// contender is a row to be: a profile with an autoscaler.
type contender struct {
	profile int // of player.chosen
	setting setting
}

// name returns what the row is called.
func (c contender) name(profile string) string {
	if c.setting.Name == "" {
		return profile
	}
	return profile + ", " + c.setting.Name
}

// errNoPrices says why --prices stands alone.
var errNoPrices = errors.New("--prices is for nodes as recorded; with --autoscaler, prices are those of --types")

// windowOf returns the window of the flags. Where an autoscaler starts the nodes of every row, the record needs none.
func windowOf(c *ucli.Context, all []setting) replay.Window {
	w := recording.Window(c)
	w.Nodeless = !slices.ContainsFunc(all, func(s setting) bool { return s.Scaler == "" || s.Scaler == none })
	return w
}
