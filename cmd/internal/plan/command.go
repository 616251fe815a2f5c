// Package plan is the command `gnnsched plan`.
package plan

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	ucli "github.com/urfave/cli/v2"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"

	"gnnsched/cmd/internal/recording"
	"gnnsched/internal/cli"
	"gnnsched/internal/exit"
	"gnnsched/scheduler/moves"
	"gnnsched/scheduler/plan"
	"gnnsched/scheduler/replay"
	"gnnsched/scheduler/server"
	"gnnsched/workload/record"
)

// Command returns the command, with the flags that --nodes has and its search, which is compare's: the services that use other parts of
// this package need none.
func Command(ofNodes []ucli.Flag, searchNodes ucli.ActionFunc) *ucli.Command {
	return &ucli.Command{
		Name:      "plan",
		Usage:     "plan with a recorded cluster: empty nodes, lose some, or buy others",
		ArgsUsage: "RECORD",
		Description: "RECORD is a folder that gnnsched record or gnnsched convert wrote, or a file of kubectl get -o json (- is stdin). " +
			"Nothing is moved, and no cluster is asked. All filters of\nkube-scheduler count. docs/how-to/plan.md describes the results.\n\n" +
			"By default: which pods to move where so that most nodes become empty. The moves respect PodDisruptionBudgets\n" +
			"            and the annotations by which owners ask to leave pods and nodes.\n" +
			"--without:  which pods get no node if the cluster loses nodes, and why not, under each --profile.\n" +
			"--nodes:    which limits of NodePools and which settings of an autoscaler to change to pay less, with as few pods waiting\n" +
			"            as now or as --at-most-waiting says. This replays the record, as gnnsched compare does; docs/how-to/cost.md.\n\n" +
			"Examples:\n" +
			"   gnnsched plan prod.record                            # at the end of the record, at most 20 moves\n" +
			"   gnnsched plan --moves 100 --memory 64Gi prod.record  # moves may cost so much at most\n" +
			"   gnnsched plan --at 2026-03-01T12:00:00Z prod.record\n" +
			"   gnnsched plan -o json prod.record | jq .freed\n" +
			"   kubectl get pods,nodes,pdb,jobs -A -o json | gnnsched plan -\n" +
			"   gnnsched plan --without zone=a prod.record           # what if zone a fails?\n" +
			"   gnnsched plan --without node=n1 --without node=n2 --without disk=hdd prod.record\n" +
			"   gnnsched plan --nodes --autoscaler karpenter --types types.yaml --nodepools pools.yaml prod.record",
		Flags: cli.Grouped(slices.Concat(flags(), SearchFlags(), ofNodes, cli.LogFlags()),
			cli.Group{Heading: "moves, without --without and --nodes", Flags: ofMoves},
			cli.Group{Heading: "with --without or --nodes", Flags: ofProfiles},
			cli.Group{Heading: "with --nodes", Flags: cli.Names(ofNodes)}),
		Action: func(c *ucli.Context) error {
			if err := check(c, cli.Names(ofNodes)); err != nil {
				return err
			}
			if c.Bool("nodes") {
				return searchNodes(c)
			}
			return run(c)
		},
	}
}

func flags() []ucli.Flag {
	return []ucli.Flag{
		&ucli.IntFlag{Name: "moves", Value: 20, Usage: "move at most `N` pods; 0 for any number"},
		&ucli.StringFlag{Name: "memory", Usage: "move pods that request this `AMOUNT` of memory together at most, such as 64Gi"},
		&ucli.BoolFlag{Name: "delete-emptydir-data", Usage: "move pods though their emptyDir volumes lose their data"},
		&ucli.GenericFlag{Name: "without", Value: &texts{},
			Usage: "lose the `NODES` node=NAME, zone=NAME or those that a selector of labels selects; may be given several times"},
		&ucli.BoolFlag{Name: "nodes", Usage: "search for NodePools and settings of an --autoscaler that cost less"},
		&ucli.StringSliceFlag{Name: "profile", Aliases: []string{"p"}, Value: ucli.NewStringSlice("default", "linear-pack"),
			Usage: "`PROFILE` that places the pods; may be given several times"},
		recording.CheckpointFlag(),
		&ucli.StringFlag{Name: "at", Usage: "plan from the state at this `TIME`, such as 2026-03-01T12:00:00Z; default: the end of the record"},
		&ucli.StringFlag{Name: "output", Aliases: []string{"o"}, Value: "text", Usage: "`FORMAT`: text or json"},
	}
}

// SearchFlags are the flags that say how to look for moves.
func SearchFlags() []ucli.Flag {
	var names []string
	for _, s := range moves.Searchers {
		names = append(names, s.Name)
	}
	return []ucli.Flag{
		&ucli.StringSliceFlag{Name: "also-move", Usage: "move pods of owners of this `KIND` too, such as CloneSet, or of the scheduler of this name: " +
			"evicted ones come back; repeatable"},
		&ucli.StringFlag{Name: "search", Value: names[0], Usage: "look for moves by `NAME`: " + strings.Join(names, ", ")},
		&ucli.DurationFlag{Name: "search-time", Value: time.Minute, Usage: "take the best moves found in this `TIME`"},
	}
}

// Also returns the kinds of owners and the schedulers whose pods move beside Kubernetes' own: those of --also-move and gnnsched's
// profiles.
func Also(c *ucli.Context) []string {
	return append(server.ProfileNames(), c.StringSlice("also-move")...)
}

// Search reads the flags of SearchFlags.
func Search(c *ucli.Context) (plan.Search, error) {
	by, err := moves.Named(c.String("search"))
	if err != nil {
		return plan.Search{}, exit.New(exit.Usage, fmt.Errorf("--search: %w", err), "")
	}
	s := plan.Search{By: by, Time: c.Duration("search-time")}
	if s.Time <= 0 {
		return s, exit.Usagef("--search-time %v is not over 0", s.Time)
	}
	return s, nil
}

// ofMoves are the flags that only moves have, and ofProfiles those that moves lack.
const (
	ofMoves    = "moves memory delete-emptydir-data also-move search search-time"
	ofProfiles = "profile checkpoint"
)

// check returns an error for a flag without effect.
func check(c *ucli.Context, ofNodes string) error {
	losses, nodes := c.IsSet("without"), c.Bool("nodes")
	switch {
	case losses && nodes:
		return exit.Usagef("--without and --nodes are two plans: leave one of them out")
	case nodes && !c.IsSet("autoscaler"):
		return exit.New(exit.Usage, errors.New("--nodes searches the settings of an autoscaler"),
			"add --autoscaler NAME; gnnsched plan --help-all lists them")
	}
	for _, x := range []struct {
		no         bool
		flags, say string
	}{
		{losses, ofMoves, "with --without"},
		{nodes, ofMoves + " at", "with --nodes"},
		{!losses && !nodes, ofProfiles, "without --without or --nodes"},
		{!nodes, ofNodes, "without --nodes: add it"},
	} {
		for f := range strings.FieldsSeq(x.flags) {
			if x.no && c.IsSet(f) {
				return exit.Usagef("--%s has no effect %s", f, x.say)
			}
		}
	}
	if o := c.String("output"); o != "text" && o != "json" {
		return exit.Usagef("--output %q: choose text or json", o)
	}
	return nil
}

func run(c *ucli.Context) error {
	log, closer, err := cli.Log(c, "plan", cli.OnTerminal())
	if err != nil {
		return err
	}
	defer closer.Close()
	bar := cli.NewBar(c.App.ErrWriter, cli.OnTerminal(), log)
	defer bar.Close()
	if c.IsSet("without") {
		return runWithout(c, bar)
	}
	return runMoves(c, bar)
}

// runMoves looks for moves that empty nodes.
func runMoves(c *ucli.Context, bar *cli.Bar) error {
	limits, err := limitsOf(c)
	if err != nil {
		return err
	}
	search, err := Search(c)
	if err != nil {
		return err
	}
	source, err := sourceAt(c)
	if err != nil {
		return err
	}
	profile, err := UpstreamProfile()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(c.Context)
	defer cancel() // ends the plugins
	state, err := plan.At(ctx, source, profile)
	if err != nil {
		return failed(c, err)
	}
	search.Progress = func(done float64) { bar.Show(done, "search", fmt.Sprintf("%.0f %%", 100*done)) }
	out, err := plan.Find(ctx, state, limits, search)
	bar.Close()
	if err != nil {
		return failed(c, err)
	}
	return cli.Print(c, out)
}

// UpstreamProfile returns upstream's default profile, whose filters say where pods fit.
func UpstreamProfile() (config.KubeSchedulerProfile, error) {
	upstreams := server.Profile{SchedulerName: server.DefaultProfile, Args: server.Args{Variant: server.DefaultProfile}}
	profiles, err := server.Config{Profiles: []server.Profile{upstreams}, QPS: 1}.Decode()
	if err != nil {
		return config.KubeSchedulerProfile{}, err
	}
	return profiles.Profiles[0], nil
}

// failed gives an error of the record its exit code. An interruption keeps its own.
func failed(c *ucli.Context, err error) error {
	if c.Context.Err() != nil {
		return err
	}
	return exit.New(exit.Usage, fmt.Errorf("%s: %w", c.Args().First(), err),
		"the record has something that cannot be planned with; choose another time with --at")
}

func limitsOf(c *ucli.Context) (plan.Limits, error) {
	l := plan.Limits{Pods: c.Int("moves"), EmptyDirs: c.Bool("delete-emptydir-data"), Also: Also(c)}
	if l.Pods < 0 {
		return l, exit.Usagef("--moves %d is negative", l.Pods)
	}
	var err error
	l.Memory, err = Memory(c.String("memory"))
	return l, err
}

// Memory reads the amount of --memory, in bytes; 0 if it is not given.
func Memory(text string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	q, err := resource.ParseQuantity(text)
	if err != nil || q.Sign() <= 0 {
		return 0, exit.New(exit.Usage, fmt.Errorf("--memory %q is not an amount over 0", text), "write it as Kubernetes does, such as 64Gi")
	}
	return q.Value(), nil
}

// sourceAt reads the record's state at the time of --at.
func sourceAt(c *ucli.Context) (s replay.Source, err error) {
	at, err := stateOf(c.String("at"))
	if err != nil {
		return s, err
	}
	return recording.Source(c, at)
}

// stateOf returns the window of --at; "" is the end of the record.
func stateOf(at string) (replay.Window, error) {
	w := replay.Window{State: true}
	if at == "" {
		return w, nil
	}
	var err error
	if w.To, err = time.Parse(time.RFC3339, at); err != nil {
		return w, exit.New(exit.Usage, fmt.Errorf("--at %q is not a time", at), "write it as 2026-03-01T12:00:00Z")
	}
	return w, nil
}

// texts is the value of a repeatable flag whose texts may contain commas.
type texts []string

// Set implements flag.Value.
func (t *texts) Set(s string) error {
	*t = append(*t, s)
	return nil
}

// String implements flag.Value.
func (t *texts) String() string { return strings.Join(*t, " ") }

// nodesOf returns which nodes the values of --without select: node=NAME, zone=NAME or a selector of labels.
func nodesOf(values []string) (func(*record.Node) bool, error) {
	names := map[string]bool{}
	var selectors []labels.Selector
	for _, v := range values {
		if name, is := strings.CutPrefix(v, "node="); is {
			names[name] = true
			continue
		}
		text := v
		if zone, is := strings.CutPrefix(v, "zone="); is {
			text = v1.LabelTopologyZone + "=" + zone
		}
		s, err := labels.Parse(text)
		if err == nil && s.Empty() {
			err = errors.New("it selects every node")
		}
		if err != nil {
			return nil, exit.New(exit.Usage, fmt.Errorf("--without %q: %w", v, err),
				"write node=NAME, zone=NAME or a selector of labels such as disk=ssd")
		}
		selectors = append(selectors, s)
	}
	return func(n *record.Node) bool {
		set := labels.Set(record.Labels(n.Labels))
		return names[n.Name] || slices.ContainsFunc(selectors, func(s labels.Selector) bool { return s.Matches(set) })
	}, nil
}

// runWithout plays the loss of nodes.
func runWithout(c *ucli.Context, bar *cli.Bar) error {
	values := *c.Generic("without").(*texts)
	gone, err := nodesOf(values)
	if err != nil {
		return err
	}
	source, err := sourceAt(c)
	if err != nil {
		return err
	}
	if _, lost := plan.Lose(source, gone); len(lost.Lost) == 0 || len(lost.Lost) == lost.Nodes {
		return exit.New(exit.Usage, fmt.Errorf("--without %s selects %d of the %d nodes at this time", strings.Join(values, " "), len(lost.Lost),
			lost.Nodes), hintOf(source.Nodes, values))
	}
	profiles, err := profilesOf(c)
	if err != nil {
		return err
	}
	out, err := plan.Without(c.Context, source, gone, profiles,
		func(done float64) { bar.Show(done, "place", fmt.Sprintf("%.0f %%", 100*done)) })
	bar.Close()
	if err != nil {
		return failed(c, err)
	}
	return cli.Print(c, out)
}

// hintOf names some nodes and zones of the record, or the right form of a value that is a node.
func hintOf(nodes []record.Node, values []string) string {
	for _, v := range values {
		if slices.ContainsFunc(nodes, func(n record.Node) bool { return n.Name == v }) {
			return "a word alone is a label; write --without node=" + v
		}
	}
	names, zones := map[string]bool{}, map[string]bool{}
	for i := range nodes {
		names[nodes[i].Name] = true
		if z := record.Labels(nodes[i].Labels)[v1.LabelTopologyZone]; z != "" {
			zones[z] = true
		}
	}
	some := func(m map[string]bool) string {
		list := slices.Sorted(maps.Keys(m))
		if len(list) > 5 {
			list = append(list[:5:5], "...")
		}
		return strings.Join(list, ", ")
	}
	hint := "the record has the nodes " + some(names)
	if len(zones) > 0 {
		hint += " in the zones " + some(zones)
	}
	return hint
}

// profilesOf decodes the profiles of the flags.
func profilesOf(c *ucli.Context) (out []plan.Profile, err error) {
	chosen, err := recording.Profiles(c)
	if err != nil {
		return nil, err
	}
	decoded, err := server.Config{Profiles: chosen, QPS: 1}.Decode()
	if err != nil {
		return nil, err
	}
	for i, p := range decoded.Profiles {
		out = append(out, plan.Profile{Name: chosen[i].SchedulerName, KubeSchedulerProfile: p})
	}
	return out, nil
}
