package compare

import (
	"cmp"
	_ "embed"
	"errors"
	"fmt"
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

// tried are the variants of an autoscaler that a search tries beside the one that was named: how eagerly it removes nodes and,
// if it was not said, what it starts.
var tried = map[string][]variant{
	"cluster-autoscaler": {{eager: "0.3"}, {eager: "0.7"}, {what: "price"}, {what: "price", eager: "0.3"}, {what: "price", eager: "0.7"}},
	"karpenter":          {{eager: "0s"}, {eager: "5m"}, {eager: "1h"}},
}

// searched returns the autoscalers that a search tries, each that was named before its variants.
func searched(chosen []string) (out []string) {
	for _, scaler := range chosen {
		out = append(out, scaler)
		name, named := parted(scaler)
		for _, v := range tried[name] {
			x := variant{cmp.Or(named.what, v.what), cmp.Or(named.eager, v.eager), named.beside}.of(name)
			if !slices.Contains(out, x) {
				out = append(out, x)
			}
		}
	}
	return out
}

// answer names the cheapest row at which at most so many pods wait; otherwise the one with the fewest.
func (r result) answer(most float64) string {
	waiting := func(x row) float64 { return x.Figures["waiting_pods"] }
	say := func(x row) string {
		return fmt.Sprintf("%.2f a day, %.2f pods waiting, %s evicted", x.Figures[billFigure], waiting(x), count(x.Scaled.Evicted))
	}
	rows := r.Rows[r.baseline():]
	best := slices.MinFunc(rows, func(a, b row) int {
		if waiting(a) <= most && waiting(b) <= most {
			return cmp.Or(cmp.Compare(a.Figures[billFigure], b.Figures[billFigure]), cmp.Compare(waiting(a), waiting(b)))
		}
		return cmp.Compare(waiting(a), waiting(b))
	})
	switch text := best.Name + ": " + say(best); {
	case waiting(best) > most:
		return fmt.Sprintf("No setting that was tried keeps at most %g pods waiting. The fewest wait with %s", most, text)
	case best.Name == rows[0].Name:
		return fmt.Sprintf("Leave it as it is: nothing that was tried is cheaper with at most %g pods waiting than %s", most, text)
	default:
		return fmt.Sprintf("The cheapest with at most %g pods waiting is %s. Now, with %s: %s", most, text, rows[0].Name, say(rows[0]))
	}
}

// AutoscalerFlags are the flags about autoscalers.
func AutoscalerFlags() []ucli.Flag {
	return []ucli.Flag{
		&ucli.StringSliceFlag{Name: "autoscaler", Usage: "`AUTOSCALER` that starts and removes nodes: " + strings.Join(autoscalerNames(), ", ") +
			"; may be given several times"},
		&ucli.Float64Flag{Name: "at-most-waiting", Usage: "search over settings of each autoscaler: the cheapest at which at most this `NUMBER` of pods waits"},
		&ucli.StringFlag{Name: "types", Usage: "`FILE` with types of machines and prices, such as Karpenter's instance_types.json"},
		&ucli.StringSliceFlag{Name: "nodepools", Usage: "`FILE` with NodePools; may be given several times, to compare them"},
	}
}

// autoscalerNames returns the autoscalers, with expanders, and what may stand beside one.
func autoscalerNames() []string {
	var out []string
	for name := range autoscalers {
		out = append(out, name)
	}
	for _, e := range autoscale.Expanders[1:] {
		out = append(out, "cluster-autoscaler:"+e)
	}
	slices.Sort(out)
	return append(out, "cluster-autoscaler+"+deletionCosts, "cluster-autoscaler+"+defrag)
}

// settings returns the autoscalers of the flags: each with each file of NodePools. Without --autoscaler there is one without a name.
func settings(c *ucli.Context) ([]setting, error) {
	chosen, pools := c.StringSlice("autoscaler"), c.StringSlice("nodepools")
	if len(chosen) == 0 {
		if c.IsSet("types") || len(pools) > 0 || c.IsSet("at-most-waiting") {
			return nil, exit.Usagef(
				"--types, --nodepools and --at-most-waiting are for an autoscaler; add --autoscaler, with %s for nodes as recorded", none)
		}
		return []setting{{}}, nil
	}
	if c.IsSet("at-most-waiting") {
		chosen = searched(chosen)
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
