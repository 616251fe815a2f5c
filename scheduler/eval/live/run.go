package live

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"gnnsched/internal/choice"
	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/kube"
	"gnnsched/internal/cluster/mig"
	"gnnsched/internal/exit"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/eval/testbed"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/policy/preference"
	"gnnsched/scheduler/server"
	"gnnsched/scheduler/sim"
	"gnnsched/workload"
)

// Config describes which episodes to repeat.
type Config struct {
	Scenario   eval.Scenario
	Seeds      []uint64         // each runs on a cluster of its own
	Contenders []Contender      // preferences count in their profiles as in the scenario
	Launcher   testbed.Launcher // starts the clusters
	LogDir     string           // folder of the cluster's log; empty: the log is deleted with the cluster
	// Progress is called with the overall progress, from 0 to 1, and a line about the current step.
	Progress func(done float64, text string)
	Race     Race            // nil: the contenders play one after another
	Endpoint server.Endpoint // of the schedulers
}

// Race watches contenders that play at the same time, each on a cluster of its own. Its methods are called for all of them at once.
type Race interface {
	// Beside is called when a contender's cluster and scheduler are ready. It calls play once.
	Beside(ctx context.Context, contender int, b *testbed.Bed, play func(context.Context) error) error
	// Stepped is called after each decision of a contender, which was about the pod with an index in the plan of env.
	Stepped(ctx context.Context, contender int, env *sim.Env, arrival int) error
}

// Report is the result of Run.
type Report struct {
	Scenario eval.Scenario
	Seeds    []uint64
	Trials   []Trial // by seed, then in the order of the contenders
}

// Run repeats every episode. When it returns, the clusters and schedulers have stopped and the
// clusters are deleted, also after an error or the end of ctx.
func Run(ctx context.Context, c Config) (*Report, error) {
	if c.Scenario.Traffic != nil || c.Scenario.Usage != nil {
		return nil, exit.New(exit.Usage, fmt.Errorf("scenario %s has traffic or usage, which pods of a simulated cluster do not have",
			c.Scenario.Name), "leave --live out, or choose another scenario")
	}
	if m := c.Scenario.MIG; m != nil && m.Load > 0 {
		return nil, exit.New(exit.Usage, fmt.Errorf("pods of scenario %s leave, and a cluster frees their partitions later than the simulator",
			c.Scenario.Name), "choose a scenario with loads in place of load")
	}
	r := &Report{Scenario: c.Scenario, Seeds: c.Seeds}
	together := len(c.Contenders)                                      // on one cluster
	if c.Scenario.Lose > 0 || c.Scenario.MIG != nil || c.Race != nil { // claims are freed some time after their pods left
		together = 1
	}
	for i, seed := range c.Seeds {
		trials, err := c.seed(ctx, i, together)
		if err != nil {
			if cause := context.Cause(ctx); cause != nil {
				err = cause
			}
			return nil, fmt.Errorf("scenario %s, seed %d: %w", c.Scenario.Name, seed, err)
		}
		r.Trials = append(r.Trials, trials...)
	}
	return r, nil
}

// seed plays the episodes of a seed on clusters for so many contenders each.
func (c Config) seed(ctx context.Context, i, together int) ([]Trial, error) {
	clusters, ctx := errgroup.WithContext(ctx)
	if c.Race == nil {
		clusters.SetLimit(1)
	}
	trials := make([]Trial, len(c.Contenders))
	for from := 0; from < len(trials); from += together {
		clusters.Go(func() error {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return c.onCluster(ctx, i, from, trials[from:from+together])
		})
	}
	return trials, clusters.Wait()
}

// onCluster plays the episodes of the contenders that begin with from on one cluster with the nodes of a seed, and fills trials.
func (c Config) onCluster(ctx context.Context, i, from int, trials []Trial) error {
	c.Progress(c.done(i, from, 0), fmt.Sprintf("%s: starting a cluster for seed %d", c.Scenario.Name, c.Seeds[i]))
	env, err := sim.New(c.Scenario.Config)
	if err != nil {
		return err
	}
	if err := env.Reset(c.Seeds[i]); err != nil {
		return err
	}
	nodes, err := yaml.Marshal(map[string]any{"pools": poolsOf(env.Snapshot().Nodes)})
	if err != nil {
		return fmt.Errorf("encode the nodes: %w", err)
	}
	name := "live"
	if c.Race != nil {
		name = fmt.Sprint("race-", from)
	}
	bed := testbed.Config{Name: name, Launcher: c.Launcher, Nodes: testbed.Nodes{Pools: nodes}, LogDir: c.LogDir}
	return testbed.Run(ctx, bed, func(ctx context.Context, b *testbed.Bed) error {
		if err := c.createServices(ctx, b.Client, env.Plan()); err != nil { // before the scheduler starts
			return err
		}
		stop, err := b.StartScheduler(ctx, c.scheduler(), c.Endpoint)
		if err != nil {
			return err
		}
		defer stop()
		play := func(ctx context.Context) (err error) {
			for k := range trials {
				if trials[k], err = c.trial(ctx, b.Client, i, from+k); err != nil {
					return fmt.Errorf("%s: %w", c.Contenders[from+k].Name, err)
				}
			}
			return nil
		}
		if c.Race != nil {
			return c.Race.Beside(ctx, from, b, play)
		}
		return play(ctx)
	})
}

// done is the overall progress from 0 to 1, given the progress within one episode.
func (c Config) done(seed, contender int, part float64) float64 {
	return (float64(seed) + (float64(contender)+part)/float64(len(c.Contenders))) / float64(len(c.Seeds))
}

// onePass is the time that a network has for a decision. It is long, because a machine may be busy and what a network decides counts here.
const onePass = time.Minute

// scheduler has a profile for each contender. It scores every node, as the simulator does.
func (c Config) scheduler() server.Config {
	out := server.Config{PercentageOfNodesToScore: 100}
	for _, x := range c.Contenders {
		out.Profiles = append(out.Profiles, x.In(c.Scenario))
	}
	return out
}

// createServices creates a Service for the pods of each owner in the plan of an episode. Upstream's
// default topology spread needs it: the pods are created one by one, without the ReplicaSet that would
// own them elsewhere. A scenario in which replicas are not spread gets no Services, because
// kube-scheduler's default profile has no other way to leave them alone.
func (c Config) createServices(ctx context.Context, client kubernetes.Interface, plan []sim.Arrival) error {
	if c.Scenario.PreferenceMode() != preference.First {
		return nil
	}
	known := map[string]bool{"": true}
	for _, a := range plan {
		owner := a.Pod.Owner
		if known[owner] {
			continue
		}
		known[owner] = true
		s := &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: owner, Namespace: namespace},
			Spec:       corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone, Selector: map[string]string{workload.LabelName: owner}},
		}
		if _, err := client.CoreV1().Services(namespace).Create(ctx, s, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("create service %s: %w", owner, err)
		}
	}
	return nil
}

// Contender is a policy and the scheduler profile that should decide the same on a cluster.
type Contender struct {
	eval.Contender
	Profile server.Profile
	Running bool // a network that takes its typical pods from the running pods: its profile has no workload
}

// In returns the profile for the pods of a scenario.
func (x Contender) In(s eval.Scenario) server.Profile {
	p := x.Profile
	p.Preferences = s.PreferenceMode()
	if p.Variant != server.DefaultProfile { // upstream's profile has no use for these
		p.Deadline.Duration = cmp.Or(p.Deadline.Duration, onePass)
		if s.OpenB != nil && !x.Running {
			p.Workload = s.OpenB.PodsFile
		}
	}
	return p
}

// Trial is one episode in the simulator and on a cluster.
type Trial struct {
	Policy    string      `json:"policy"`
	Seed      uint64      `json:"seed"`
	Simulated sim.Outcome `json:"simulated"`
	Cluster   sim.Outcome `json:"live"`   // measured from the nodes and pods of the API server
	Placed    int         `json:"placed"` // pods that kube-scheduler bound
	// Same is the number of pods that got the same node in both. One different decision, such as
	// another random choice among equal scores, makes later decisions differ too.
	Same int `json:"same"`
	// Best is the number of the cluster's decisions that have the highest score of the simulator's
	// policy in the same state. It measures whether the two decide alike.
	Best    int      `json:"best"`
	Waiting []Waiter `json:"waiting,omitempty"` // on the cluster, at the end
}

// trial plays the episode of one seed and one contender in the simulator, and then on the
// cluster.
func (c Config) trial(ctx context.Context, client kubernetes.Interface, i, k int) (Trial, error) {
	x, seed := c.Contenders[k], c.Seeds[i]
	t := Trial{Policy: x.Name, Seed: seed}
	env, err := sim.New(c.Scenario.Config)
	if err != nil {
		return t, err
	}
	setting := policy.Setting{Seed: seed, Typical: env.Typical(), Running: env.TypicalRunning()}
	_, nodes, err := eval.Placements(env, seed, eval.Deciding(x.New(setting), x.Ties(seed)))
	if err != nil {
		return t, fmt.Errorf("in the simulator: %w", err)
	}
	t.Simulated = atEnd(env)
	if err := env.Reset(seed); err != nil {
		return t, err
	}
	f, err := newFollower(ctx, client, fmt.Sprintf("pod-%d-%d", i, k), x.Profile.SchedulerName, env)
	if err != nil {
		return t, err
	}
	e := episode{follower: f, trial: &t, policy: judge{policy: x.New(setting)}, simulated: nodes}
	for !env.Done() {
		arrival := env.Next()
		err := e.step(ctx)
		if err == nil && c.Race != nil {
			err = c.Race.Stepped(ctx, k, env, arrival)
		}
		if err != nil {
			return t, err
		}
		done := float64(t.Placed) / float64(max(t.Simulated.Placed, 1))
		c.Progress(c.done(i, k, done), fmt.Sprintf("%s, seed %d: %s has placed %.0f%% of the pods", c.Scenario.Name, seed, x.Name, 100*done))
	}
	t.Cluster, t.Waiting, err = f.outcome(ctx)
	return t, err
}

// episode is a running episode on the cluster.
type episode struct {
	follower  *follower
	trial     *Trial
	policy    judge
	simulated map[int][]string // nodes of the simulator's own episode by arrival, without those already compared
}

// step places the next pod on the cluster, compares its node with the simulator's, and applies the
// cluster's decision to the simulator.
func (e *episode) step(ctx context.Context) error {
	env, t := e.follower.env, e.trial
	choice, err := e.follower.place(ctx)
	if err != nil {
		return err
	}
	if err := e.policy.ask(env); err != nil {
		return err
	}
	t.Placed++
	if left := e.simulated[env.Next()]; len(left) > 0 {
		if left[0] == env.Snapshot().Nodes[env.Candidates()[choice.Candidate]].Name {
			t.Same++
		}
		e.simulated[env.Next()] = left[1:]
	}
	if best, err := e.policy.best(env, choice); err != nil {
		return err
	} else if best {
		t.Best++
	}
	env.StepAt(choice.Candidate, choice.Devices, choice.Start)
	if err := e.follower.lose(ctx); err != nil {
		return err
	}
	return e.follower.remove(ctx)
}

// atEnd returns the outcome at the end of the simulator's episode. Unlike env.Outcome, it has no averages over the episode.
func atEnd(env *sim.Env) sim.Outcome {
	all := env.Outcome()
	o := measured(env.Snapshot().Nodes, env.Config())
	o.Cost, o.Arrived = all.Cost, all.Arrived
	o.Placed, o.Unscheduled = all.Placed, all.Unscheduled
	return o
}

// judge checks whether a policy could have taken a decision.
type judge struct {
	policy policy.Policy
	scores []float32
}

// ask scores the candidates of the pending pod.
func (j *judge) ask(env *sim.Env) error {
	var err error
	j.scores, err = eval.Scores(env, j.policy, j.scores)
	return err
}

// tolerance is the relative difference below which two scores count as equal. The nodes on the
// cluster are in another order, which changes the rounding of sums.
const tolerance = 1e-4

// best tells whether a choice has the highest score, and a partition lies where the policy puts it.
func (j *judge) best(env *sim.Env, c eval.Choice) (bool, error) {
	best, pod := j.scores[policy.Best(j.scores)], env.Pending()
	if best-j.scores[c.Candidate] > tolerance*max(best, -best, 1) || pod.Partition == mig.None {
		return best-j.scores[c.Candidate] <= tolerance*max(best, -best, 1), nil
	}
	on, start, err := eval.Place(j.policy, env.Snapshot().Nodes[env.Candidates()[c.Candidate]], pod)
	return on == c.Devices && start == c.Start, err
}

// metrics names the metrics that can be measured on a cluster at the end of an episode.
var metrics = []string{"cost", "cpuStd", "memoryStd", "unscheduled", "nodesInUse", "gpuIdle"}

// metrics returns the metrics of the report.
func (r *Report) metrics() (out []eval.Metric) {
	for _, name := range metrics {
		if m, err := eval.FindMetric(name); err == nil && (name != "gpuIdle" || r.gpus()) {
			out = append(out, m)
		}
	}
	return out
}

// gpus tells whether the nodes have GPUs.
func (r *Report) gpus() bool { return r.Trials[0].Simulated.GPU != nil }

// Write writes the report for a terminal, or as Markdown.
func (r *Report) Write(w io.Writer, markdown bool) error {
	p := &eval.Page{Markdown: markdown}
	p.Title(r.Scenario.Name+" on a cluster with the real kube-scheduler", r.Scenario.About)
	p.Printf("\n\nHow many pods of %s got the same node as in the simulator, and how many a node that the simulator's\n"+
		"policy would have chosen in the same state:\n\n", r.seeds())
	p.Table(r.placements())
	p.Printf("\nMeans at the end of the episodes:\n\n")
	p.Table(r.means())
	if rows := r.waiting(); rows != nil {
		p.Printf("\nPods without a node at the end of the episodes:\n\n")
		p.Table(rows)
	}
	p.Printf("\n")
	return p.Write(w)
}

func (r *Report) seeds() string {
	if n := len(r.Seeds); n > 1 {
		return fmt.Sprintf("seeds %d to %d", r.Seeds[0], r.Seeds[n-1])
	}
	return fmt.Sprintf("seed %d", r.Seeds[0])
}

// MarshalJSON implements json.Marshaler with the scenario's name and description and the trials.
func (r *Report) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Scenario string  `json:"scenario"`
		About    string  `json:"about"`
		Trials   []Trial `json:"trials"`
	}{r.Scenario.Name, r.Scenario.About, r.Trials})
}

// policies returns the names of the contenders in their order.
func (r *Report) policies() []string {
	return choice.Names(r.Trials[:len(r.Trials)/len(r.Seeds)], func(t Trial) string { return t.Policy })
}

// placements returns the rows of the first table.
func (r *Report) placements() [][]string {
	rows := [][]string{{"policy", "pods", "same node", "same decision"}}
	for _, name := range r.policies() {
		var placed, same, best int
		for _, t := range r.Trials {
			if t.Policy == name {
				placed += t.Placed
				same += t.Same
				best += t.Best
			}
		}
		rows = append(rows, []string{name, strconv.Itoa(placed), share(same, placed), share(best, placed)})
	}
	return rows
}

// share formats n with its percentage of another number.
func share(n, of int) string {
	return fmt.Sprintf("%d (%.1f%%)", n, 100*float64(n)/float64(max(of, 1)))
}

// means returns the rows of the second table.
func (r *Report) means() [][]string {
	rows := [][]string{{"metric", "policy", "simulator", "cluster", "difference", "relative"}}
	simulator, cluster := r.comparison(simulated), r.comparison(live)
	for _, m := range r.metrics() {
		for i, x := range simulator.Results {
			s, c := x.Mean(m), cluster.Results[i].Mean(m)
			row := []string{m.Title, x.Name, decimal(s, m), decimal(c, m), fmt.Sprintf("%+.*f", m.Digits, c-s), ""}
			if s != 0 {
				row[5] = fmt.Sprintf("%+.1f%%", 100*(c/s-1))
			}
			rows = append(rows, row)
		}
	}
	return rows
}

func decimal(v float64, m eval.Metric) string { return strconv.FormatFloat(v, 'f', m.Digits, 64) }

func live(t Trial) sim.Outcome      { return t.Cluster }
func simulated(t Trial) sim.Outcome { return t.Simulated }

// comparison returns the outcomes on one of the two sides.
func (r *Report) comparison(of func(Trial) sim.Outcome) *eval.Comparison {
	return eval.Collect(r.Trials, func(t Trial) (string, uint64, sim.Outcome) { return t.Policy, t.Seed, of(t) })
}

// measured measures the nodes at the end of an episode. GPUs with partitions do not count: claims hold them, and nodes do not show that.
func measured(nodes []*cluster.Node, c sim.Config) sim.Outcome {
	if c.MIG != nil {
		nodes = slices.Clone(nodes)
		for i, n := range nodes {
			bare := *n
			bare.Allocatable.GPU, bare.Requested.GPU, bare.Requested.GPUMilli = 0, 0, 0
			nodes[i] = &bare
		}
	}
	o := sim.Measure(nodes)
	o.GPU = devicesInUse(nodes)
	return o
}

// devicesInUse returns the allocated fraction of the GPU capacity, or nil without GPUs.
func devicesInUse(nodes []*cluster.Node) *sim.GPUOutcome {
	var used, all int64
	for _, n := range nodes {
		if n.Available() {
			used += n.Requested.TotalGPUMilli()
			all += n.Allocatable.TotalGPUMilli()
		}
	}
	if all == 0 {
		return nil
	}
	return &sim.GPUOutcome{Allocation: cluster.Fraction(used, all)}
}

// snapshot reads the cluster from the API server. Nodes have their names in the simulator and are
// sorted by them. unbound is the number of pods without a node.
func snapshot(ctx context.Context, client kubernetes.Interface) (out []*cluster.Node, unbound int, err error) {
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, 0, fmt.Errorf("list the nodes: %w", err)
	}
	pods, err := client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, 0, fmt.Errorf("list the pods: %w", err)
	}
	all, unbound, err := kube.Snapshot(nodes.Items, pods.Items)
	for _, n := range all.Nodes {
		n.Name = poolName(n.Name)
	}
	slices.SortFunc(all.Nodes, func(a, b *cluster.Node) int { return strings.Compare(a.Name, b.Name) })
	return all.Nodes, unbound, err
}

// onlyNode is the suffix that kwokcluster appends to the name of a pool's first node.
const onlyNode = "-0"

// nodeName returns the name of the node in a pool of one node.
func nodeName(pool string) string { return pool + onlyNode }

// poolName returns the name of the pool whose only node has a name.
func poolName(node string) string { return strings.TrimSuffix(node, onlyNode) }

// Waiter is a kind of pods of which some have no node at the end of an episode, and why.
type Waiter struct {
	Kind   string `json:"kind"`   // what they request and where they may run
	Pods   int    `json:"pods"`   // without a node
	Nodes  int    `json:"nodes"`  // on which they may run
	Others int    `json:"others"` // pods that run there and may run on other nodes, too
}

// waiters describes the kinds of some arrivals that have no node.
func (f *follower) waiters(left []int) (out []Waiter) {
	nodes := f.env.Snapshot().Nodes
	may := func(p *cluster.Pod, n *cluster.Node) bool {
		return n.Allows(p) == cluster.Fits && p.Requests.Within(n.Allocatable)
	}
	for _, arrival := range left {
		p := f.plan[arrival].Pod
		kind := cluster.KindText(p.Requests, p.Where())
		if at := slices.IndexFunc(out, func(w Waiter) bool { return w.Kind == kind }); at >= 0 {
			out[at].Pods++
			continue
		}
		w := Waiter{Kind: kind, Pods: 1}
		for _, n := range nodes {
			if may(p, n) {
				w.Nodes++
			}
		}
		for arrival, running := range f.running {
			row, known := f.rows[poolName(running.Spec.NodeName)]
			elsewhere := func(n *cluster.Node) bool { return !may(p, n) && may(f.plan[arrival].Pod, n) }
			if known && may(p, nodes[row]) && slices.ContainsFunc(nodes, elsewhere) {
				w.Others++
			}
		}
		out = append(out, w)
	}
	slices.SortFunc(out, func(a, b Waiter) int { return cmp.Or(b.Pods-a.Pods, cmp.Compare(a.Kind, b.Kind)) })
	return out
}

// waiting returns the rows of the table of waiting pods; nil if none waits.
func (r *Report) waiting() (rows [][]string) {
	for _, t := range r.Trials {
		for _, w := range t.Waiting {
			rows = append(rows, []string{t.Policy, strconv.FormatUint(t.Seed, 10), fmt.Sprintf("%d × %s", w.Pods, w.Kind),
				strconv.Itoa(w.Nodes), strconv.Itoa(w.Others)})
		}
	}
	if rows == nil {
		return nil
	}
	slices.SortStableFunc(rows, func(a, b []string) int {
		return cmp.Compare(slices.Index(r.policies(), a[0]), slices.Index(r.policies(), b[0]))
	})
	return slices.Insert(rows, 0, []string{"policy", "seed", "pods that wait", "their nodes", "pods there that may run elsewhere"})
}
