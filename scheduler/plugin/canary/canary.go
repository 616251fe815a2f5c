package canary

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/lru"

	"gnnsched/internal/choice"
	"gnnsched/internal/cluster/kube"
	"gnnsched/internal/metric"
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

// The values of Args.By.
const (
	ByOwner     = "owner"
	ByNamespace = "namespace"
)

// Defaults of Args.
const (
	DefaultFailures = 0.01
	DefaultLatency  = 100 * time.Millisecond
)

// Args are the canary's arguments, as a part of those of LearnedScore.
type Args struct {
	// Of is the canary's share, more than 0 and at most 1.
	Of float64 `json:"of"`
	// By says what is drawn: owner (the default), or namespace.
	By string `json:"by,omitempty"`
	// Failures is how much larger the canary's share of failures may be than the rest's. The default is
	// 0.01.
	Failures float64 `json:"failures,omitempty"`
	// Latency is how long an attempt to place one of the canary's pods may take; one in 100 may take longer. The default
	// is 100ms.
	Latency metav1.Duration `json:"latency,omitempty"`
}

// Default fills in the defaults, and returns an error for the first invalid value.
func (a *Args) Default() error {
	a.By = cmp.Or(a.By, ByOwner)
	a.Failures = cmp.Or(a.Failures, DefaultFailures)
	a.Latency.Duration = cmp.Or(a.Latency.Duration, DefaultLatency)
	switch by := []string{ByOwner, ByNamespace}; {
	case !(a.Of > 0 && a.Of <= 1):
		return fmt.Errorf("share: of is %v, want more than 0 and at most 1", a.Of)
	case !slices.Contains(by, a.By):
		return fmt.Errorf("share: by is %q%s", a.By, choice.Among(a.By, by))
	case !(a.Failures > 0 && a.Failures < 1):
		return fmt.Errorf("share: failures is %v, want more than 0 and less than 1", a.Failures)
	case a.Latency.Duration < 0:
		return fmt.Errorf("share: latency is %v, want more than 0", a.Latency.Duration)
	}
	return nil
}

var set metric.Set

var (
	current = set.Gauges("share",
		"Share of the owners or namespaces whose pods the profile's network or policy places; 0 before it begins and after it stopped.",
		"profile")
	stopped = set.Gauges("share_stopped",
		"1 if the share was stopped, by reason: failures, latency, or earlier for a stop before this process began.", "profile", "reason")
	pods = set.Counters("share_pods_total",
		"Pods by group (canary or rest) and result: bound, fallback, not_bound; or lost, which counts a bound pod of this process again that "+
			"the kubelet refused or evicted.",
		"profile", "group", "result")
	attempts = set.Histograms("share_attempt_duration_seconds", // 50 µs to 2.8 s
		"Time of one scheduling attempt from the snapshot to the choice of a node, by group (canary or rest).",
		metric.Exponential(50e-6, 1.5, 28), "profile", "group")
)

// Group says who scores the nodes for a pod.
type Group string

// The groups.
const (
	Learned Group = "canary" // the profile's decider
	Rest    Group = "rest"   // kube-scheduler's default scoring
)

// place returns a number in 0 (included) to 1 (excluded), which is the same for all pods of an owner or a namespace.
// The canary has the pods whose number is below its share.
func (a *Args) place(pod *v1.Pod) float64 {
	key := pod.Namespace
	if a.By == ByOwner {
		key += "/" + owner(pod)
	}
	sum := sha256.Sum256([]byte("gnnsched share " + key))
	return float64(binary.BigEndian.Uint64(sum[:])>>11) / (1 << 53)
}

// owner returns the kube.Workload of a pod with a controller, and else the pod's UID. The annotation that kube.Workload
// reads without a controller does not count, because anybody may write it at any time.
func owner(pod *v1.Pod) string {
	if metav1.GetControllerOfNoCopy(pod) == nil {
		return string(pod.UID)
	}
	return kube.Workload(pod)
}

var ownerSeed = maphash.MakeSeed()

// ownerKey returns a number of a pod's owner that differs between processes, and is never others.
func ownerKey(pod *v1.Pod) uint64 {
	return maphash.String(ownerSeed, pod.Namespace+"/"+owner(pod)) | 1
}

// watchLost counts pods that the kubelet refused or evicted until ctx ends. It has an informer of its own, because the
// scheduler's sees no pods that have failed: for that one they are deleted.
func (c *Split) watchLost(ctx context.Context) {
	failed := coreinformers.NewFilteredPodInformer(c.handle.ClientSet(), metav1.NamespaceAll, 0, cache.Indexers{},
		func(o *metav1.ListOptions) {
			o.FieldSelector = fields.AndSelectors(
				fields.OneTermEqualSelector("status.phase", string(v1.PodFailed)),
				fields.OneTermEqualSelector("spec.schedulerName", c.profile),
			).String()
		})
	_ = failed.SetTransform(slim) // the only error is that it has started
	_, _ = failed.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    c.failed,
		UpdateFunc: func(_, now any) { c.failed(now) },
	}) // the only error is that it has stopped
	failed.RunWithContext(ctx)
}

// slim leaves of a pod what failed needs.
func slim(object any) (any, error) {
	p, is := object.(*v1.Pod)
	if !is {
		return object, nil
	}
	return &v1.Pod{
		TypeMeta:   p.TypeMeta,
		ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name, UID: p.UID, ResourceVersion: p.ResourceVersion},
		Status:     v1.PodStatus{Phase: p.Status.Phase, Reason: p.Status.Reason},
	}, nil
}

// failed counts a pod that this process placed and the kubelet refused or evicted, once.
func (c *Split) failed(object any) {
	p, is := object.(*v1.Pod)
	if !is || p.Status.Phase != v1.PodFailed || !nodeFailed(p.Status.Reason) {
		return
	}
	if m, has := c.takePlaced(p.UID); has {
		c.settled(m, lost)
	}
}

// takePlaced returns the member of a pod that was placed, and forgets the pod. It remembers any other pod, whose PostBind
// may follow: the API has the binding before, and a kubelet can refuse the pod at once.
func (c *Split) takePlaced(pod types.UID) (m member, has bool) {
	c.lostMu.Lock()
	defer c.lostMu.Unlock()
	at, has := c.placed.Get(pod)
	if !has {
		c.early.Add(pod, nil)
		return member{}, false
	}
	c.placed.Remove(pod)
	return at.(member), true
}

// lostAlready reports whether a pod failed before its PostBind. It remembers the member of any other pod.
func (c *Split) lostAlready(pod types.UID, m member) bool {
	c.lostMu.Lock()
	defer c.lostMu.Unlock()
	if _, has := c.early.Get(pod); has {
		c.early.Remove(pod)
		return true
	}
	c.placed.Add(pod, m)
	return false
}

// nodeFailed reports whether a failed pod was not fit for its node, or the node not for the pod. The other reasons
// come from the pod itself.
func nodeFailed(reason string) bool {
	switch reason {
	case "Evicted", "NodeAffinity", "UnexpectedAdmissionError", "TopologyAffinityError":
		return true
	}
	return strings.HasPrefix(reason, "OutOf") // OutOfcpu, OutOfmemory, OutOfpods
}
