package canary

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/lru"

	"gnnsched/scheduler/plugin/userconfig"
)

// Reasons of a stop: the values of the metric's label.
const (
	reasonFailures = "failures"
	reasonLatency  = "latency"
	reasonEarlier  = "earlier"
)

// Split assigns the pods of a profile to the groups, and compares these. Its methods may be called by any
// goroutine.
type Split struct {
	args    Args
	handle  fwk.Handle
	profile string
	lease   string
	log     klog.Logger
	share   atomic.Uint64 // the bits of the current share; 0 until the canary begins, and after it stopped
	ended   chan string   // what to keep in the cluster, once the canary has stopped
	running string        // value of runningAnnotation while this process runs the canary
	waited  time.Time     // since when the mark of another process is in the way
	close   context.CancelFunc
	done    sync.WaitGroup // the canary's goroutines

	mu     sync.Mutex // guards seen, totals, and changes of share
	seen   comparison
	totals totals

	lostMu sync.Mutex // held while a pod is looked up in one of these, and added to the other
	placed *lru.Cache // the member of pods by UID, of both groups, so that it forgets both alike
	early  *lru.Cache // UIDs of pods that the kubelet refused or evicted, and that were not in placed
}

// placements is how many of the pods that were placed last can be counted as lost. So many failed pods are remembered too.
const placements = 50_000

// New returns a canary, which begins when active is closed, or at once if that is nil, unless it was stopped
// earlier. Its goroutines end with ctx or Close. The arguments must have their defaults.
func New(ctx context.Context, args Args, h fwk.Handle, active <-chan struct{}, log klog.Logger) *Split {
	set.Register()
	c := &Split{
		args: args, handle: h, profile: h.ProfileName(), lease: userconfig.ShareLeaseOf(h.ProfileName()), log: log,
		seen: comparison{args: args}, ended: make(chan string, 1), placed: lru.New(placements), early: lru.New(placements),
	}
	current.WithLabelValues(c.profile).Set(0)
	for _, reason := range []string{reasonFailures, reasonLatency, reasonEarlier} {
		stopped.WithLabelValues(c.profile, reason).Set(0)
	}
	c.running = time.Now().UTC().Format(time.RFC3339) + " " + rand.Text()
	ctx, c.close = context.WithCancel(ctx)
	c.done.Go(func() { c.run(ctx, active) })
	return c
}

// Close ends the canary and waits until a stop is kept in the cluster, for at most lateTime. Nothing that is counted
// later stops the canary.
func (c *Split) Close() {
	c.close()
	c.done.Wait()
}

// GroupOf returns the group of a pod now.
func (c *Split) GroupOf(pod *v1.Pod) Group {
	if share := math.Float64frombits(c.share.Load()); share > 0 && c.args.place(pod) < share {
		return Learned
	}
	return Rest
}

// Attempted takes the time of an attempt to find a node for a pod.
func (c *Split) Attempted(pod *v1.Pod, took time.Duration) {
	g := c.GroupOf(pod)
	attempts.WithLabelValues(c.profile, string(g)).Observe(took.Seconds())
	owner := ownerKey(pod)
	c.attempted(g, owner, took)
}

func (c *Split) attempted(g Group, owner uint64, took time.Duration) {
	c.count(reasonLatency, func() string {
		c.totals.attempted(g, took)
		return c.seen.attempted(g, owner, took)
	})
}

// Placement is the result of a placement that was decided.
type Placement struct {
	Pod    *v1.Pod
	Group  Group
	Result Result
	Chosen bool // by scores: more than one node was feasible
}

// member is where a pod counts.
type member struct {
	group Group
	owner uint64 // ownerKey
}

// Settled takes the result of a placement.
func (c *Split) Settled(p Placement) {
	m := member{p.Group, ownerKey(p.Pod)}
	c.settled(m, p.Result)
	if p.Result == Bound && p.Chosen && c.lostAlready(p.Pod.UID, m) {
		c.settled(m, lost)
	}
}

func (c *Split) settled(m member, r Result) {
	pods.WithLabelValues(c.profile, string(m.group), string(r)).Inc()
	c.count(reasonFailures, func() string {
		c.totals.settled(m.group, r)
		return c.seen.settled(m.group, m.owner, r)
	})
}

// count counts something while the canary runs, and stops it if so is found.
func (c *Split) count(reason string, what func() (why string)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.share.Load() == 0 {
		return
	}
	if why := what(); why != "" {
		c.stop(reason, why)
	}
}

// stop stops the canary, and leaves to run what to keep in the cluster. The caller holds the lock.
func (c *Split) stop(reason, why string) {
	c.halt(reason)
	c.totals.ended = why
	c.log.Error(errors.New(why), "The share is stopped: the default scoring decides for all pods", "profile", c.profile, "reason", reason,
		"again", c.again())
	lease := &v1.ObjectReference{APIVersion: "coordination.k8s.io/v1", Kind: "Lease", Namespace: metav1.NamespaceSystem, Name: c.lease}
	c.handle.EventRecorder().Eventf(lease, nil, v1.EventTypeWarning, "ShareStopped", "Scheduling", "%s", why)
	c.ended <- time.Now().UTC().Format(time.RFC3339) + " " + reason + ": " + why
}

// halt leaves all pods to the rest. The caller holds the lock.
func (c *Split) halt(reason string) {
	c.share.Store(0)
	current.WithLabelValues(c.profile).Set(0)
	stopped.WithLabelValues(c.profile, reason).Set(1)
}

// again says how the canary begins again.
func (c *Split) again() string {
	return fmt.Sprintf("kubectl -n %s annotate lease %s %s- && restart the scheduler", metav1.NamespaceSystem, c.lease, StoppedAnnotation)
}

// run begins the canary, and keeps its stop in the cluster. It also looks for a stop that another process, or a person,
// keeps there meanwhile.
func (c *Split) run(ctx context.Context, active <-chan struct{}) {
	if active != nil {
		select {
		case <-active:
		case <-ctx.Done():
			return
		}
	}
	c.done.Go(func() { c.watchLost(ctx) })
	earlier := ""
	if !c.retry(ctx, "write that the share begins", func(ctx context.Context) (err error) { earlier, err = c.claim(ctx); return err }) {
		c.release(ctx) // a claim whose answer did not come
		return
	}
	c.begin(earlier)
	for earlier == "" {
		select {
		case why := <-c.ended:
			c.keep(ctx, why)
			return
		case <-ctx.Done():
			c.end()
			select {
			case why := <-c.ended:
				c.keep(ctx, why)
			default:
				c.release(ctx)
			}
			return
		case <-time.After(lookEach):
			if limited(ctx, func(ctx context.Context) (err error) { earlier, err = c.read(ctx); return err }) == nil && earlier != "" {
				c.stopEarlier(earlier)
			}
		}
	}
	c.release(ctx)
}

// begin begins the canary, unless it was stopped earlier.
func (c *Split) begin(earlier string) {
	if earlier != "" {
		c.stopEarlier(earlier)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.totals.begun = true
	c.share.Store(math.Float64bits(c.args.Of))
	current.WithLabelValues(c.profile).Set(c.args.Of)
	c.log.Info("A share of the pods is decided by the profile's network or policy, the rest by the default scoring", "profile", c.profile,
		"share", c.args.Of, "by", c.args.By)
}

// stopEarlier stops the canary because of a stop that is in the cluster.
func (c *Split) stopEarlier(why string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.log.Error(errors.New(why), "The share was stopped earlier and stays so: the default scoring decides for all pods", "profile", c.profile,
		"again", c.again())
	c.halt(reasonEarlier)
	c.totals.ended = why
}

// end makes sure that nothing stops the canary any more.
func (c *Split) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.share.Store(0)
}

const (
	requestTime = 5 * time.Second  // the limit of each request about the lease
	retryEach   = time.Second      // after which a request that failed is sent again
	lookEach    = 10 * time.Second // between two looks for a stop by another process
	lateTime    = 10 * time.Second // for which a process that ends tries to keep a stop
)

// limited does something within requestTime.
func limited(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	return do(ctx)
}

// retry tries to do something until it succeeds. It returns false if ctx has ended before.
func (c *Split) retry(ctx context.Context, what string, do func(context.Context) error) bool {
	for told := false; ; told = true {
		err := limited(ctx, do)
		if err == nil {
			return true
		}
		if !told && ctx.Err() == nil {
			c.log.Error(err, "Failed to "+what+"; it is tried again", "lease", c.lease)
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(retryEach):
		}
	}
}
