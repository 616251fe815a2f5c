package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rs/zerolog"
	ucli "github.com/urfave/cli/v2"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/infer"
	"gnnsched/internal/exit"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/policy"
)

func evalCommand() *ucli.Command {
	return &ucli.Command{
		Name:  "eval",
		Usage: "compare policies in the simulator, on the same arrivals",
		Description: "Every policy meets the same clusters and arrivals. Means and the differences from the first policy, with a\n" +
			"95% bootstrap interval; pods that found no node are counted beside every other figure. No cluster is needed.\n\n" +
			"Scenarios:\n" + scenarioHelp() + "\n" +
			"Examples:\n" +
			"   gnnsched eval                                          # all policies on all scenarios\n" +
			"   gnnsched eval --scenario mixed --seeds 30 -o markdown  # a table for a document\n" +
			"   gnnsched eval --checkpoint logs/gnn.safetensors        # add a network that you trained\n" +
			"   gnnsched eval --policies best-fit,most-allocated,gnn   # best-fit is the baseline\n" +
			"   gnnsched eval -o json | jq '.[].policies[].mean'",
		Flags: []ucli.Flag{
			&ucli.StringSliceFlag{Name: "scenario", Usage: "`NAMES`; default: " + strings.Join(scenarioNames(), ",")},
			&ucli.IntFlag{Name: "seeds", Value: 10, Usage: "`NUMBER` of episodes for each policy"},
			&ucli.Uint64Flag{Name: "seed", Value: 1, Usage: "of the first episode; the others follow it"},
			&ucli.StringSliceFlag{Name: "policies", Usage: "`NAMES`, the baseline first; default: " + strings.Join(policyNames(), ",")},
			&ucli.StringSliceFlag{Name: "checkpoint", Usage: "also a network from a `FILE`, or NAME=FILE to say what tables call it; repeatable"},
			&ucli.StringFlag{Name: "output", Aliases: []string{"o"}, Value: "table", Usage: "`FORMAT`: " + strings.Join(evalFormats, ", ")},
		},
		Action: runEval,
	}
}

var evalFormats = []string{"table", "markdown", "json"}

func scenarioHelp() string {
	var b strings.Builder
	for _, s := range eval.Scenarios() {
		fmt.Fprintf(&b, "   %-6s %s\n", s.Name, s.About)
	}
	return b.String()
}

func scenarioNames() []string {
	var names []string
	for _, s := range eval.Scenarios() {
		names = append(names, s.Name)
	}
	return names
}

// heuristics are the policies that need no checkpoint, the default baseline first.
func heuristics() []eval.Contender {
	one := func(p policy.Policy) eval.Contender {
		return eval.Contender{Name: p.Name(), New: func(uint64) policy.Policy { return p }, RandomTies: true}
	}
	return []eval.Contender{
		one(policy.Kubernetes{}), one(policy.MostAllocated{}), one(policy.BestFit{}), one(policy.GreedyBalance{}),
		{Name: "random", New: func(seed uint64) policy.Policy {
			const stream = 0x72616e64 // apart from the ties and the episode itself
			return policy.NewRandom(rand.New(rand.NewPCG(seed, stream)))
		}},
	}
}

func policyNames() []string {
	var names []string
	for _, h := range heuristics() {
		names = append(names, h.Name)
	}
	return append(names, checkpoint.ShippedNames()...)
}

func runEval(c *ucli.Context) error {
	if c.NArg() > 0 {
		return exit.Usagef("unexpected argument %q", c.Args().First())
	}
	format, seeds := c.String("output"), c.Int("seeds")
	if !slices.Contains(evalFormats, format) {
		return exit.Usagef("--output %q is not known; there are %s", format, strings.Join(evalFormats, ", "))
	}
	if seeds < 1 || seeds > 100_000 {
		return exit.Usagef("--seeds %d is outside 1 to 100000", seeds)
	}
	scenarios, err := chosenScenarios(c.StringSlice("scenario"))
	if err != nil {
		return err
	}
	contenders, err := chosenPolicies(c.StringSlice("policies"), c.StringSlice("checkpoint"))
	if err != nil {
		return err
	}
	log := zerolog.New(zerolog.ConsoleWriter{Out: c.App.ErrWriter, NoColor: true, PartsExclude: []string{zerolog.TimestampFieldName}})
	if onTerminal() {
		log = zerolog.Nop()
	}
	view := newProgressView(c.App.ErrWriter, onTerminal(), log)
	defer view.close()
	var out []*eval.Comparison
	for i, s := range scenarios {
		r, err := eval.Compare(c.Context, s, contenders, eval.Seeds(c.Uint64("seed"), seeds), func(done, total int) {
			view.show((float64(i)+float64(done)/float64(total))/float64(len(scenarios)), s.Name, fmt.Sprintf("%s: %d of %d episodes", s.Name, done, total))
		})
		if err != nil {
			return err
		}
		out = append(out, r)
	}
	view.close()
	return writeComparisons(c.App.Writer, out, format)
}

func writeComparisons(w io.Writer, comparisons []*eval.Comparison, format string) error {
	if format == "json" {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(comparisons)
	}
	for _, r := range comparisons {
		write := r.WriteTable
		if format == "markdown" {
			write = r.WriteMarkdown
		}
		if err := write(w); err != nil {
			return err
		}
	}
	return nil
}

func chosenScenarios(names []string) ([]eval.Scenario, error) {
	if len(names) == 0 {
		return eval.Scenarios(), nil
	}
	var out []eval.Scenario
	for _, n := range names {
		s, err := eval.Find(n)
		if err != nil {
			return nil, exit.New(exit.Usage, fmt.Errorf("--scenario: %w", err), "")
		}
		out = append(out, s)
	}
	return out, nil
}

// chosenPolicies are the policies of the given names, and those of the checkpoint files.
func chosenPolicies(names, files []string) ([]eval.Contender, error) {
	if len(names) == 0 {
		names = policyNames()
	}
	var out []eval.Contender
	for _, n := range names {
		x, err := namedPolicy(n)
		if err != nil {
			return nil, err
		}
		out = append(out, x)
	}
	for _, f := range files {
		name, path, given := strings.Cut(f, "=")
		if !given {
			path = f
			name = strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
		}
		if err := checkCheckpoint(path); err != nil {
			return nil, err
		}
		ckpt, err := checkpoint.Load(path)
		if err != nil {
			return nil, exit.New(exit.Checkpoint, err, "")
		}
		x, err := learned(name, ckpt)
		if err != nil {
			return nil, err
		}
		out = append(out, x)
	}
	seen := map[string]bool{}
	for _, x := range out {
		if seen[x.Name] {
			return nil, exit.New(exit.Usage, fmt.Errorf("two policies are called %q", x.Name), "give the checkpoint a name: --checkpoint NAME=FILE")
		}
		seen[x.Name] = true
	}
	return out, nil
}

func namedPolicy(name string) (eval.Contender, error) {
	for _, h := range heuristics() {
		if h.Name == name {
			return h, nil
		}
	}
	if !slices.Contains(checkpoint.ShippedNames(), name) {
		return eval.Contender{}, exit.New(exit.Usage, fmt.Errorf("--policies: no policy is called %q; there are %s", name, strings.Join(policyNames(), ", ")),
			"a network of your own comes with --checkpoint")
	}
	c, err := checkpoint.Shipped(name)
	if err != nil {
		return eval.Contender{}, exit.New(exit.Checkpoint, err, "train one with gnntrain and give it with --checkpoint")
	}
	return learned(name, c)
}

func learned(name string, c *checkpoint.Checkpoint) (eval.Contender, error) {
	net, err := infer.New(c)
	if err != nil {
		return eval.Contender{}, exit.New(exit.Checkpoint, err, "")
	}
	return eval.Contender{Name: name, New: func(uint64) policy.Policy { return policy.NewLearned(name, net) }}, nil
}
