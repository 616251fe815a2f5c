package canary

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"gnnsched/scheduler/plugin/userconfig"
)

// StoppedAnnotation is the annotation of the lease of userconfig.MarkOf that says since when and why the canary is
// stopped.
const StoppedAnnotation = "gnnsched.io/share-stopped"

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

	mu   sync.Mutex // guards seen, and changes of share
	seen comparison
}

// New returns a canary, which begins when active is closed, or at once if that is nil, unless it was stopped
// earlier. Its goroutines end with ctx. The arguments must have their defaults.
func New(ctx context.Context, args Args, h fwk.Handle, active <-chan struct{}, log klog.Logger) (*Split, error) {
	registerMetrics()
	c := &Split{
		args: args, handle: h, profile: h.ProfileName(), lease: userconfig.MarkOf(h.ProfileName()), log: log,
		seen: comparison{args: args}, ended: make(chan string, 1),
	}
	current.WithLabelValues(c.profile).Set(0)
	for _, reason := range []string{reasonFailures, reasonLatency, reasonEarlier} {
		stopped.WithLabelValues(c.profile, reason).Set(0)
	}
	if _, err := h.SharedInformerFactory().Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{UpdateFunc: c.updated}); err != nil {
		return nil, fmt.Errorf("watch pods: %w", err)
	}
	go c.run(ctx, active)
	return c, nil
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
	c.count(reasonLatency, func() string { return c.seen.attempted(g, took) })
}

// Settled takes the result of a placement that was decided for a pod of the group.
func (c *Split) Settled(g Group, r Result) {
	pods.WithLabelValues(c.profile, string(g), string(r)).Inc()
	c.count(reasonFailures, func() string { return c.seen.settled(g, r) })
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

// stop stops the canary. The caller holds the lock.
func (c *Split) stop(reason, why string) {
	c.share.Store(0)
	current.WithLabelValues(c.profile).Set(0)
	stopped.WithLabelValues(c.profile, reason).Set(1)
	if reason == reasonEarlier {
		return
	}
	c.log.Error(errors.New(why), "The share is stopped: the default scoring decides for all pods", "profile", c.profile, "reason", reason, "again", c.again())
	lease := &v1.ObjectReference{APIVersion: "coordination.k8s.io/v1", Kind: "Lease", Namespace: metav1.NamespaceSystem, Name: c.lease}
	c.handle.EventRecorder().Eventf(lease, nil, v1.EventTypeWarning, "ShareStopped", "Scheduling", "%s", why)
	c.ended <- time.Now().UTC().Format(time.RFC3339) + " " + reason + ": " + why
}

// again says how the canary begins again.
func (c *Split) again() string {
	return fmt.Sprintf("kubectl -n %s annotate lease %s %s- && restart the scheduler", metav1.NamespaceSystem, c.lease, StoppedAnnotation)
}

// run begins the canary, and keeps its stop in the cluster.
func (c *Split) run(ctx context.Context, active <-chan struct{}) {
	if active != nil {
		select {
		case <-active:
		case <-ctx.Done():
			return
		}
	}
	var earlier string
	if !c.persist(ctx, "read whether the share was stopped", func(ctx context.Context) (err error) { earlier, err = c.read(ctx); return }) {
		return
	}
	c.begin(earlier)
	select {
	case why := <-c.ended:
		c.persist(ctx, "keep that the share is stopped", func(ctx context.Context) error { return c.write(ctx, why) })
	case <-ctx.Done():
	}
}

// begin begins the canary, unless it was stopped earlier.
func (c *Split) begin(earlier string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if earlier != "" {
		c.log.Error(errors.New(earlier), "The share was stopped earlier and stays so: the default scoring decides for all pods", "profile", c.profile, "again", c.again())
		c.stop(reasonEarlier, earlier)
		return
	}
	c.share.Store(math.Float64bits(c.args.Of))
	current.WithLabelValues(c.profile).Set(c.args.Of)
	c.log.Info("A share of the pods is decided by the profile's network or policy, the rest by the default scoring", "profile", c.profile, "share", c.args.Of, "by", c.args.By)
}

// Each request about the lease may take requestTime. One that failed is sent again after retryEach.
const (
	requestTime = 5 * time.Second
	retryEach   = time.Second
)

// persist tries to do something until it succeeds, or ctx has ended. It tries once even if ctx has ended.
func (c *Split) persist(ctx context.Context, what string, do func(context.Context) error) bool {
	for told := false; ; {
		request, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTime)
		err := do(request)
		cancel()
		if err == nil {
			return true
		}
		if !told && !apierrors.IsConflict(err) { // the lease is renewed every second
			told = true
			c.log.Error(err, "Failed to "+what+"; it is tried again", "lease", c.lease)
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(retryEach):
		}
	}
}

// read returns why the canary was stopped earlier; empty if it was not.
func (c *Split) read(ctx context.Context) (string, error) {
	lease, err := c.handle.ClientSet().CoordinationV1().Leases(metav1.NamespaceSystem).Get(ctx, c.lease, metav1.GetOptions{})
	if apierrors.IsNotFound(err) { // the process has not made its mark yet
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return lease.Annotations[StoppedAnnotation], nil
}

// write keeps in the cluster why the canary is stopped.
func (c *Split) write(ctx context.Context, why string) error {
	leases := c.handle.ClientSet().CoordinationV1().Leases(metav1.NamespaceSystem)
	lease, err := leases.Get(ctx, c.lease, metav1.GetOptions{})
	if err != nil {
		return err
	}
	metav1.SetMetaDataAnnotation(&lease.ObjectMeta, StoppedAnnotation, why)
	_, err = leases.Update(ctx, lease, metav1.UpdateOptions{})
	return err
}

// updated counts a pod that the kubelet refused or evicted.
func (c *Split) updated(before, after any) {
	old, was := before.(*v1.Pod)
	now, is := after.(*v1.Pod)
	if was && is && now.Spec.SchedulerName == c.profile && old.Status.Phase != v1.PodFailed && now.Status.Phase == v1.PodFailed && nodeFailed(now.Status.Reason) {
		c.Settled(c.GroupOf(now), lost)
	}
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
