package trial

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"sync"
	"time"

	ucli "github.com/urfave/cli/v2"

	"gnnsched/cmd/internal/web"
	"gnnsched/internal/choice"
	"gnnsched/internal/cli"
	"gnnsched/internal/exit"
	"gnnsched/internal/logging"
	"gnnsched/scheduler/decision"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/eval/contender"
	"gnnsched/scheduler/eval/live"
	"gnnsched/scheduler/eval/testbed"
	"gnnsched/scheduler/plugin"
	"gnnsched/scheduler/server"
	"gnnsched/scheduler/sim"
)

// Try returns the command try, a setting of package live.
func Try() *ucli.Command {
	return &ucli.Command{
		Name:  "try",
		Usage: "watch a learned scheduler race the default scheduler on the same pods, in a browser",
		Description: "It starts two equal simulated clusters of ten nodes, one for each scheduler, lets the same pods arrive on both, and\n" +
			"shows which pods wait and what the placements cost. The page links the first decision in which they differ.\n" +
			"Ctrl-C ends the clusters and deletes them. It touches no other cluster.\n\n" +
			"Examples:\n" +
			"   gnnsched try                             # opens a browser if there is one\n" +
			"   gnnsched try --seed 7 --interval 1s      # other pods, slower\n" +
			"   gnnsched try --no-browser --http 8080    # on a machine that you reach with ssh -L 8080:127.0.0.1:8080",
		Flags: []ucli.Flag{
			&ucli.Uint64Flag{Name: "seed", Value: 1, Usage: "`SEED` of the pods"},
			&ucli.DurationFlag{Name: "interval", Value: 250 * time.Millisecond, Usage: "`TIME` between two decisions of a scheduler, 0 or more"},
			&ucli.BoolFlag{Name: "no-browser", Usage: "only print the page's address"},
			&ucli.StringFlag{Name: web.Flag, Value: "0", Usage: "serve the page at `ADDRESS`, a port or 127.0.0.1:PORT; 0 for any port"},
			&ucli.StringFlag{Name: "log-dir", Usage: "`DIR`ectory for logs; default: none are kept"},
		},
		Action: cli.FlagsOnly(runTry),
	}
}

// learnedProfile races against the default scheduler.
const learnedProfile = "gnn"

func runTry(c *ucli.Context) error {
	if c.Duration("interval") < 0 {
		return exit.Usagef("--interval %v must be 0 or more", c.Duration("interval"))
	}
	if err := web.Check(c); err != nil {
		return err
	}
	program, err := testbed.FindProgram()
	if err != nil {
		return err
	}
	_, closer, err := logging.Setup(logging.Config{Component: "try", Dir: c.String("log-dir"), Level: "info", Quiet: true})
	if err != nil {
		return err
	}
	defer closer.Close()
	scenario, first, err := web.Contest(c.Uint64("seed"), learnedProfile)
	if err != nil {
		return err
	}
	list, err := contender.List([]string{contender.Kubernetes, learnedProfile}, nil)
	if err != nil {
		return err
	}
	with, err := contender.WithProfiles(list, nil)
	if err != nil {
		return err
	}
	book := plugin.Recording{Book: decision.NewBook(decision.DefaultBookSize, nil), DefaultShare: 1}
	r := &race{c: c, first: first, recording: book, ready: make(chan struct{}), sides: make([]side, len(with))}
	for i, x := range with {
		r.sides[i].shown = web.Side{Name: x.Name, Steps: [][3]float64{}, Waiting: []web.Waiting{}}
	}
	fmt.Fprintln(c.App.ErrWriter, "gnnsched try: starting two simulated clusters")
	_, err = live.Run(c.Context, live.Config{
		Scenario: scenario, Seeds: []uint64{c.Uint64("seed")}, Contenders: with, Launcher: program, LogDir: c.String("log-dir"), Race: r,
		Endpoint: server.Endpoint{Recording: book}, Progress: func(float64, string) {},
	})
	if r.begun() && c.Context.Err() != nil {
		fmt.Fprintln(c.App.ErrWriter, "gnnsched try: the clusters are stopped and deleted")
		return nil
	}
	return err
}

// race holds the state of the race, which the page and the terminal show. It implements live.Race.
type race struct {
	c         *ucli.Context
	first     *web.Difference // in which they differ; nil for none
	recording plugin.Recording
	ready     chan struct{} // closed when all clusters are ready

	mu      sync.Mutex
	up      int // clusters that are ready
	sides   []side
	plan    int // arrivals in all
	printed time.Time
}

// side is a contender with its decisions.
type side struct {
	shown   web.Side
	sum     float64 // of the costs
	arrived int
}

// Beside implements live.Race. It plays once all clusters are ready, and then keeps the cluster until ctx ends.
func (r *race) Beside(ctx context.Context, of int, b *testbed.Bed, play func(context.Context) error) error {
	if r.sides[of].shown.Name == learnedProfile {
		stop, err := web.Serve(r.c, web.Shown{
			Title: "gnnsched try: " + learnedProfile, Client: b.Client, Recording: r.recording, Race: r.snapshot, Opened: r.open,
		})
		if err != nil {
			return err
		}
		defer stop()
		fmt.Fprintf(r.c.App.ErrWriter, "On a terminal: ktop --kubeconfig %s\nCtrl-C ends everything\n", exit.ShellLine(b.Kubeconfig()))
	}
	r.mu.Lock()
	if r.up++; r.up == len(r.sides) {
		close(r.ready)
	}
	r.mu.Unlock()
	select {
	case <-r.ready:
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := play(ctx); err != nil {
		return err
	}
	r.mu.Lock()
	r.sides[of].shown.Done = true
	r.print(!slices.ContainsFunc(r.sides, func(s side) bool { return !s.shown.Done }))
	r.mu.Unlock()
	<-ctx.Done()
	return ctx.Err()
}

// begun tells whether all clusters have been ready.
func (r *race) begun() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.up == len(r.sides)
}

// Stepped implements live.Race.
func (r *race) Stepped(ctx context.Context, of int, env *sim.Env, arrival int) error {
	r.add(of, env, arrival)
	select {
	case <-time.After(r.c.Duration("interval")):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// add notes a decision.
func (r *race) add(of int, env *sim.Env, arrival int) {
	plan := env.Plan()
	r.mu.Lock()
	defer r.mu.Unlock()
	s := &r.sides[of]
	r.plan = len(plan)
	s.sum += env.Cost()
	s.shown.Waiting = []web.Waiting{}
	s.arrived = max(s.arrived, arrival+1)
	for _, i := range env.Waiting() {
		p := plan[i].Pod
		s.shown.Waiting = append(s.shown.Waiting,
			web.Waiting{Pod: fmt.Sprintf("%s (%d)", p.Name, i+1), CPU: p.Requests.MilliCPU, Memory: p.Requests.Memory})
		s.arrived = max(s.arrived, i+1)
	}
	s.shown.Steps = append(s.shown.Steps, [3]float64{float64(s.arrived), env.Cost(), float64(len(s.shown.Waiting))})
	s.shown.Mean = s.sum / float64(len(s.shown.Steps))
	if d := r.reached(); d != nil && s.shown.Name == learnedProfile && len(s.shown.Steps) == d.Decision {
		fmt.Fprintf(r.c.App.ErrWriter, "They differ first in decision %d, about pod %s: %s chose %s, where %s would have chosen %s\n",
			d.Decision, d.Pod, learnedProfile, d.Node, contender.Kubernetes, d.Other)
	}
	r.print(false)
}

// reached returns the first difference once the learned scheduler has decided it.
func (r *race) reached() *web.Difference {
	for _, s := range r.sides {
		if s.shown.Name == learnedProfile && r.first != nil && len(s.shown.Steps) >= r.first.Decision {
			return r.first
		}
	}
	return nil
}

// between is the time between two lines on the terminal.
const between = 10 * time.Second

// print prints how the contenders fare, now or if the last line is old.
func (r *race) print(now bool) {
	if !now && time.Since(r.printed) < between {
		return
	}
	r.printed = time.Now()
	for _, s := range r.sides {
		done := ""
		if s.shown.Done {
			done = ", done"
		}
		fmt.Fprintf(r.c.App.Writer, "%-15s %d of %d pods have arrived, %d wait, mean cost %.4f%s\n",
			s.shown.Name, s.arrived, r.plan, len(s.shown.Waiting), s.shown.Mean, done)
	}
}

// snapshot returns the race for the page.
func (r *race) snapshot() web.Race {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := web.Race{Arrivals: r.plan, First: r.reached()}
	for _, s := range r.sides {
		out.Sides = append(out.Sides, s.shown)
	}
	return out
}

// open opens the page's address in a browser, if there is one and a person looks on.
func (r *race) open(address string) {
	screen := os.Getenv("DISPLAY") != "" || os.Getenv("WAYLAND_DISPLAY") != ""
	if r.c.Bool("no-browser") || !screen || !cli.OnTerminal() {
		return
	}
	browser := exec.Command("xdg-open", address)
	browser.Stdout, browser.Stderr = io.Discard, io.Discard
	if browser.Start() == nil {
		go func() { _ = browser.Wait() }() // the address is on the terminal too
	}
}

// Demo returns the command demo, a setting of package live.
func Demo() *ucli.Command {
	return &ucli.Command{
		Name:  "demo",
		Usage: "see where the networks pay: mixed nodes under load, two scarce pools and a pool of GPUs, beside the default scheduler",
		Description: "It starts simulated clusters, deploys the same pods through a network and the default scheduler, says what is\n" +
			"won, which pods wait and why, and prints the figures beside the simulator's. Then it removes the clusters. It touches no\n" +
			"other one.\n\n" +
			"Examples:\n" +
			"   gnnsched demo                            # about a minute\n" +
			"   gnnsched demo --seeds 5 --seed 20        # more workloads, and others\n" +
			"   gnnsched try                             # one workload, to watch in a browser",
		Flags: append([]ucli.Flag{
			&ucli.IntFlag{Name: "seeds", Value: 2, Usage: "`NUMBER` of workloads in each part; each is deployed once through each scheduler"},
			&ucli.Uint64Flag{Name: "seed", Value: 1, Usage: "`SEED` of the first workload; the others follow it"},
			&ucli.StringFlag{Name: "variant", Value: "gnn", Usage: "learned `PROFILE` for the scarce pools: gnn, dqn, acgnn or acdqn"},
		}, cli.LogFlags()...),
		Action: cli.FlagsOnly(runDemo),
	}
}

// demoPart is one comparison of the demo: a network and the default scheduler on a scenario.
type demoPart struct {
	title, scenario, learned string

	figure string // that is compared
	of     func(sim.Outcome) float64
	more   bool // more is better
}

func demoParts(variant string) []demoPart {
	return []demoPart{
		{"Mixed nodes under load", "jobs", "rule", "standard deviation of the nodes' load",
			func(o sim.Outcome) float64 { return 100 * (o.CPUStd + o.MemoryStd) / 2 }, false},
		{"A full cluster with two scarce pools", "scarce-pools", variant, "pods without a node",
			func(o sim.Outcome) float64 { return 100 * float64(o.Unscheduled) / float64(max(o.Arrived, 1)) }, false},
		{"A pool of GPUs", "gpu-pool", "gpu-gnn", "GPUs allocated",
			func(o sim.Outcome) float64 { return 100 * o.GPU.Allocation }, true},
	}
}

// The workloads that the simulator plays, far from those on the clusters.
const usualSeed, usualSeeds = 101, 40

// demo is a run of the demo.
type demo struct {
	launcher testbed.Launcher
	logDir   string
	seeds    []uint64
	view     *cli.Bar
}

func runDemo(c *ucli.Context) error {
	seeds, err := seedsOf(c, 1)
	if err != nil {
		return err
	}
	if !slices.Contains(server.Variants, c.String("variant")) {
		return exit.Usagef("%w", choice.Unknown("variant", c.String("variant"), server.Variants))
	}
	_, closer, err := cli.Log(c, "demo", true)
	if err != nil {
		return err
	}
	defer closer.Close()
	program, err := testbed.FindProgram()
	if err != nil {
		return err
	}
	d := &demo{program, c.String("log-dir"), seeds, cli.StderrBar(c.App.ErrWriter)}
	defer d.view.Close()
	var reports []*live.Report
	var all verdict
	for _, p := range demoParts(c.String("variant")) {
		r, err := d.play(c.Context, p)
		if err != nil {
			return err
		}
		usual, err := p.usual(c.Context, r.Scenario)
		if err != nil {
			return err
		}
		all.add(p, r, usual)
		reports = append(reports, r)
	}
	d.view.Close()
	fmt.Fprint(c.App.Writer, all)
	for _, r := range reports {
		fmt.Fprintln(c.App.Writer)
		if err := r.Write(c.App.Writer, false); err != nil {
			return err
		}
	}
	return nil
}

// play deploys the workloads of a part through both schedulers on a cluster for each.
func (d *demo) play(ctx context.Context, p demoPart) (*live.Report, error) {
	s, err := eval.Find(p.scenario)
	if err != nil {
		return nil, err
	}
	list, err := contender.List([]string{contender.Kubernetes, p.learned}, nil)
	if err != nil {
		return nil, err
	}
	with, err := contender.WithProfiles(list, nil)
	if err != nil {
		return nil, err
	}
	return live.Run(ctx, live.Config{
		Scenario: s, Seeds: d.seeds, Contenders: with, Launcher: d.launcher, LogDir: d.logDir,
		Progress: func(done float64, text string) { d.view.Show(done, p.title, p.title+": "+text) },
	})
}

// usual compares both policies on other workloads in the simulator.
func (p demoPart) usual(ctx context.Context, s eval.Scenario) (*eval.Comparison, error) {
	list, err := contender.List([]string{contender.Kubernetes, p.learned}, nil)
	if err != nil {
		return nil, err
	}
	return eval.Compare(ctx, s, list, eval.Seeds(usualSeed, usualSeeds), nil)
}

// verdict says in a line for all parts and one for each on how many workloads the networks do better.
type verdict struct {
	here, of, there, others int
	parts                   string
}

// add adds a part that was played on clusters and in the simulator.
func (v *verdict) add(p demoPart, r *live.Report, usual *eval.Comparison) {
	var base, learned []sim.Outcome
	for i := 0; i < len(r.Trials); i += 2 {
		base, learned = append(base, r.Trials[i].Cluster), append(learned, r.Trials[i+1].Cluster)
	}
	here, ours, theirs := p.count(learned, base)
	there, simulated, by := p.count(usual.Results[1].Outcomes, usual.Results[0].Outcomes)
	v.here, v.of, v.there, v.others = v.here+here, v.of+len(base), v.there+there, v.others+len(usual.Seeds)
	v.parts += fmt.Sprintf("%s (%s): %s %.1f %%, not %.1f %%; in the simulator %.1f %%, not %.1f %%.\n",
		p.title, p.learned, p.figure, ours, theirs, simulated, by)
}

// String returns the lines.
func (v verdict) String() string {
	return fmt.Sprintf("The networks do better than the default scheduler on %d of %d workloads here, and on %d of %d in the simulator.\n%s",
		v.here, v.of, v.there, v.others, v.parts)
}

// count returns on how many workloads the first outcomes are better, and both means.
func (p demoPart) count(learned, base []sim.Outcome) (better int, ours, theirs float64) {
	for i := range learned {
		a, b := p.of(learned[i]), p.of(base[i])
		if a != b && (a > b) == p.more {
			better++
		}
		ours, theirs = ours+a/float64(len(learned)), theirs+b/float64(len(base))
	}
	return better, ours, theirs
}
