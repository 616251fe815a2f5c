package shadow

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/clock"

	"gnnsched/scheduler/advise"
	"gnnsched/scheduler/plugin"
)

// cluster is the state of one cluster, with the profile that is watched and upstream's own.
type cluster struct {
	cache.Cache
	snapshot *cache.Snapshot
	ours     framework.Framework // the profile that decides
	stock    framework.Framework // upstream's default profile; only its filters are used
	ledger   *ledger
	log      klog.Logger
	clock    clock.PassiveClock
	draw     *rand.Rand
	wait     func(context.Context) error // until the handlers of upstream's own cache have seen all objects
}

// informersOf are the informers that both clusters share.
type informersOf struct {
	shared informers.SharedInformerFactory
	named  dynamicinformer.DynamicSharedInformerFactory // nil for none
}

// stockName is the scheduler name under which upstream's profile runs beside ours. No pod has it.
const stockName = "gnnsched.shadow/upstream"

// newCluster makes an empty cluster.
func newCluster(ctx context.Context, c Config, from informersOf, seed uint64) (*cluster, error) {
	stock, err := latest.Default()
	if err != nil {
		return nil, fmt.Errorf("upstream's default profile: %w", err)
	}
	stock.Profiles[0].SchedulerName = stockName
	sched, err := scheduler.New(ctx, c.Client, from.shared, from.named,
		func(string) events.EventRecorderLogger { return &events.FakeRecorder{} }, // it has nothing to report
		scheduler.WithProfiles([]config.KubeSchedulerProfile{c.Profile, stock.Profiles[0]}...),
		scheduler.WithFrameworkOutOfTreeRegistry(plugin.Registry(nil)),
	)
	if err != nil {
		return nil, fmt.Errorf("set up the plugins: %w", err)
	}
	ours := sched.Profiles[c.Profile.SchedulerName]
	snapshot, is := ours.SnapshotSharedLister().(*cache.Snapshot)
	if !is {
		return nil, fmt.Errorf("upstream's snapshot is a %T", ours.SnapshotSharedLister())
	}
	// The scheduler's own cache follows the informers. This one follows the events in their order.
	return &cluster{
		Cache: cache.New(ctx, nil, false), snapshot: snapshot, ours: ours, stock: sched.Profiles[stockName],
		ledger: &ledger{term: c.Objective}, log: klog.FromContext(ctx), clock: c.Clock, draw: rand.New(rand.NewPCG(seed, seed)),
		wait: sched.WaitForHandlersSync,
	}, nil
}

// sync brings the snapshot and the ledger up to date with the cache.
func (c *cluster) sync() error {
	if err := c.UpdateSnapshot(c.log, c.snapshot); err != nil {
		return fmt.Errorf("update the snapshot: %w", err)
	}
	infos, err := c.snapshot.NodeInfos().List()
	if err != nil {
		return fmt.Errorf("read the snapshot: %w", err)
	}
	c.ledger.follow(infos)
	return nil
}

// cost returns the objective's cost now.
func (c *cluster) cost() (float64, error) {
	if err := c.sync(); err != nil {
		return 0, err
	}
	return c.ledger.now(), nil
}

// choice is what the profile would do with a pod.
type choice struct {
	node     string            // "" if no node fits
	best     []string          // the nodes that kube-scheduler would draw among; node is one of them
	feasible int               // number of nodes that fit
	refused  map[string]string // the reasons of the others by name
	fallback bool              // upstream's scoring decided instead of the profile's
	took     time.Duration     // for filtering and scoring
}

// choose lets the profile filter and score all nodes for a pod that counts on none of them.
func (c *cluster) choose(ctx context.Context, pod *v1.Pod) (choice, error) {
	if err := c.sync(); err != nil {
		return choice{}, err
	}
	pod = on(pod, "")
	began, state := c.clock.Now(), framework.NewCycleState()
	feasible, refused, err := advise.Filter(ctx, c.ours, state, pod)
	if err != nil {
		return choice{}, err
	}
	out := choice{feasible: len(feasible), refused: refused}
	switch len(feasible) {
	case 0:
	case 1: // kube-scheduler scores nothing either
		out.best = []string{feasible[0].Node().Name}
	default:
		before, err := plugin.Fallbacks(c.ours.ProfileName())
		if err != nil {
			return choice{}, err
		}
		if out.best, err = c.best(ctx, state, pod, feasible); err != nil {
			return choice{}, err
		}
		after, err := plugin.Fallbacks(c.ours.ProfileName())
		if err != nil {
			return choice{}, err
		}
		out.fallback = after > before
	}
	out.took = c.clock.Since(began)
	if len(out.best) > 0 {
		out.node = out.best[c.draw.IntN(len(out.best))]
	}
	return out, nil
}

// best returns the nodes with the highest total score.
func (c *cluster) best(ctx context.Context, state fwk.CycleState, pod *v1.Pod, feasible []fwk.NodeInfo) ([]string, error) {
	if st := c.ours.RunPreScorePlugins(ctx, state, pod, feasible); !st.IsSuccess() {
		return nil, fmt.Errorf("score the nodes: %w", st.AsError())
	}
	scores, st := c.ours.RunScorePlugins(ctx, state, pod, feasible)
	if !st.IsSuccess() {
		return nil, fmt.Errorf("score the nodes: %w", st.AsError())
	}
	var best []string
	var most int64
	for _, s := range scores {
		switch {
		case len(best) == 0 || s.TotalScore > most:
			best, most = []string{s.Name}, s.TotalScore
		case s.TotalScore == most:
			best = append(best, s.Name)
		}
	}
	if len(best) == 0 {
		return nil, errors.New("no node was scored")
	}
	return best, nil
}

// admits returns why upstream's default filters refuse a node for the pod; "" if they do not.
func (c *cluster) admits(ctx context.Context, pod *v1.Pod, node string) (string, error) {
	info, err := c.snapshot.Get(node)
	if err != nil {
		return "the node is gone", nil
	}
	pod, state := on(pod, ""), framework.NewCycleState()
	among, st, _ := c.stock.RunPreFilterPlugins(ctx, state, pod)
	if st.IsSuccess() {
		if !among.AllNodes() && !among.NodeNames.Has(node) {
			return "the node is not among those that the pod names", nil
		}
		st = c.stock.RunFilterPluginsWithNominatedPods(ctx, state, pod, info)
	}
	switch {
	case st.IsSuccess():
		return "", nil
	case st.IsRejected():
		return st.Message(), nil
	}
	return "", fmt.Errorf("upstream's filters: %w", st.AsError())
}

// on returns the pod with another node. It shares all else with the original, which nobody changes.
func on(pod *v1.Pod, node string) *v1.Pod {
	c := *pod
	c.Spec.NodeName = node
	return &c
}
