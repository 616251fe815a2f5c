package live

import (
	"cmp"
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"gnnsched/internal/exit"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/eval/testbed"
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
	// Beside, if it is set, is called with each cluster and what plays on it, and calls play.
	Beside func(ctx context.Context, b *testbed.Bed, play func(context.Context) error) error
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
	r := &Report{Scenario: c.Scenario, Seeds: c.Seeds}
	together := len(c.Contenders) // on one cluster
	if c.Scenario.Lose > 0 {
		together = 1
	}
	for i, seed := range c.Seeds {
		for from := 0; from < len(c.Contenders); from += together {
			trials, err := c.onCluster(ctx, i, from, from+together)
			if err != nil {
				if cause := context.Cause(ctx); cause != nil {
					err = cause
				}
				return nil, fmt.Errorf("scenario %s, seed %d: %w", c.Scenario.Name, seed, err)
			}
			r.Trials = append(r.Trials, trials...)
		}
	}
	return r, nil
}

// onCluster plays the episodes of the contenders from to to-1 on one cluster with the nodes of a
// seed.
func (c Config) onCluster(ctx context.Context, i, from, to int) (trials []Trial, err error) {
	c.Progress(c.done(i, from, 0), fmt.Sprintf("%s: starting a cluster for seed %d", c.Scenario.Name, c.Seeds[i]))
	env, err := sim.New(c.Scenario.Config)
	if err != nil {
		return nil, err
	}
	if err := env.Reset(c.Seeds[i]); err != nil {
		return nil, err
	}
	nodes, err := nodesOf(env)
	if err != nil {
		return nil, err
	}
	bed := testbed.Config{Name: "live", Launcher: c.Launcher, Nodes: nodes, LogDir: c.LogDir}
	err = testbed.Run(ctx, bed, func(ctx context.Context, b *testbed.Bed) error {
		if err := c.createServices(ctx, b.Client, env.Plan()); err != nil { // before the scheduler starts
			return err
		}
		stop, err := b.StartScheduler(ctx, c.scheduler())
		if err != nil {
			return err
		}
		defer stop()
		pods, err := watchPods(ctx, b.Client)
		if err != nil {
			return err
		}
		defer pods.stop()
		play := func(ctx context.Context) error {
			for k := from; k < to; k++ {
				t, err := c.trial(ctx, pods, i, k)
				if err != nil {
					return fmt.Errorf("%s: %w", c.Contenders[k].Name, err)
				}
				trials = append(trials, t)
			}
			return nil
		}
		if c.Beside != nil {
			return c.Beside(ctx, b, play)
		}
		return play(ctx)
	})
	return trials, err
}

// done is the overall progress from 0 to 1, given the progress within one episode.
func (c Config) done(seed, contender int, part float64) float64 {
	return (float64(seed) + (float64(contender)+part)/float64(len(c.Contenders))) / float64(len(c.Seeds))
}

// nodesOf returns the nodes that the simulator has drawn.
func nodesOf(env *sim.Env) (testbed.Nodes, error) {
	y, err := pools(env.Snapshot().Nodes)
	if err != nil {
		return testbed.Nodes{}, exit.New(exit.Usage, err, "choose another scenario for --live")
	}
	return testbed.Nodes{Pools: y}, nil
}

// onePass is the time that a network has for a decision. It is long, because a machine may be busy and what a network decides counts here.
const onePass = time.Minute

// scheduler has a profile for each contender. It scores every node, as the simulator does.
func (c Config) scheduler() server.Config {
	out := server.Config{PercentageOfNodesToScore: 100}
	for _, x := range c.Contenders {
		p := x.Profile
		p.Preferences = c.Scenario.PreferenceMode()
		if p.Variant != server.DefaultProfile { // upstream's profile has no use for these
			p.Deadline.Duration = cmp.Or(p.Deadline.Duration, onePass)
			if o := c.Scenario.OpenB; o != nil && !x.Running {
				p.Workload = o.PodsFile
			}
		}
		out.Profiles = append(out.Profiles, p)
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
