package defrag

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	resourcehelper "k8s.io/component-helpers/resource"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/kube"
	"gnnsched/internal/each"
	"gnnsched/scheduler/plan"
	"gnnsched/scheduler/plugin/nodereservation"
)

// Mover makes the moves of a plan.
type Mover struct {
	Client  kubernetes.Interface
	Profile config.KubeSchedulerProfile // whose filters say where pods fit
	Limits  plan.Limits
	Wait    time.Duration // for a budget that allows an eviction, and for the pods of a round to run again
	Clock   clock.Clock
	// Progress gets the number of pods that have moved or stay, and what happens; may be nil.
	Progress func(done int, what string)
}

// Outcome says which moves were made.
type Outcome struct {
	Moved   []Moved        `json:"moved"`
	Stayed  []Stayed       `json:"stayed"`         // pods of the plan that did not move
	Emptied []string       `json:"emptied"`        // nodes of the plan that are empty now; they stay cordoned
	Used    []plan.Blocked `json:"used,omitempty"` // nodes of the plan that are not empty
	Room    *plan.Place    `json:"room,omitempty"`
}

// Moved is a pod that runs elsewhere now.
type Moved struct {
	plan.Move
	New     string `json:"new"`                // the pod that its owner made
	Node    string `json:"node"`               // where that runs
	NewGPUs string `json:"new_gpus,omitempty"` // of Node, if the scheduler chose them
}

// Stayed is a pod that did not move, and why.
type Stayed struct {
	plan.Move
	Why string `json:"why"`
}

// elsewhere reports whether the scheduler gave the pod another node, or other GPUs of it, than the plan did.
func (m Moved) elsewhere() bool {
	return m.Node != m.To || m.NewGPUs != "" && m.NewGPUs != m.GPUs
}

// elsewhere returns the number of such pods.
func (o Outcome) elsewhere() int {
	return each.Count(o.Moved, Moved.elsewhere)
}

// ErrStopped says that a run ended before all moves were tried.
var ErrStopped = errors.New("the moves have stopped")

// run is a Mover at work.
type run struct {
	*Mover
	pods  *returns
	nodes nodes
	plan  plan.Moves
	stuck map[string]string // nodes of which a pod stays, and which one
	out   Outcome
}

// Run makes the moves, round by round. The nodes that become empty are cordoned before, and those that do stay so. Before each round the
// cluster is listed again; a move that it does not allow any more is left out. A run that cannot know the state of its pods ends with
// ErrStopped: if a pod does not come back in time, or comes back larger. The outcome is valid even with an
// error. When ctx ends, no further pod is evicted.
func (m *Mover) Run(ctx context.Context, p plan.Moves) (Outcome, error) {
	measured.Register()
	defer underWay.Set(0)
	follows, stop := context.WithCancel(ctx)
	defer stop()
	pods, err := follow(follows, m.Client)
	if err != nil {
		return Outcome{}, err
	}
	x := &run{Mover: m, pods: pods, nodes: nodes{client: m.Client, clock: m.Clock}, plan: p, stuck: map[string]string{}}
	err = x.moves(ctx, p)
	after, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	empty, used, err2 := x.nodes.empty(after, p.Freed)
	x.out.Emptied, x.out.Used = empty, used
	return x.out, errors.Join(err, err2, x.nodes.open(after, empty))
}

// moves cordons the nodes and makes the moves. The node on which they make room is cordoned until
// they are made, so that no other pod takes it.
func (x *run) moves(ctx context.Context, p plan.Moves) error {
	closed := slices.Concat(p.Freed, p.Empty)
	if p.Room != nil {
		closed = append(closed, p.Room.Node)
	}
	if err := x.nodes.close(ctx, closed); err != nil {
		return err
	}
	for round := 1; round <= p.Rounds; round++ {
		moves := slices.DeleteFunc(slices.Clone(p.Moves), func(m plan.Move) bool { return m.Round != round })
		if err := x.round(ctx, moves); err != nil {
			return err
		}
	}
	if p.Room == nil {
		return nil
	}
	if err := x.nodes.open(ctx, nil); err != nil {
		return err
	}
	return x.arrives(ctx, p.Room.Pod)
}

// round makes moves together, and waits until their pods run again and the evicted ones have ended. Pods that take longer to end than
// Wait keep their nodes in use.
func (x *run) round(ctx context.Context, moves []plan.Move) error {
	whys, err := x.recheck(ctx, moves)
	if err != nil {
		return err
	}
	for i, m := range moves {
		if whys[i] == "" {
			if whys[i], err = x.evict(ctx, m); err != nil {
				return err
			}
		}
		if why := whys[i]; why != "" {
			x.out.Stayed = append(x.out.Stayed, Stayed{m, why})
			moved.WithLabelValues("stayed").Inc()
			if slices.Contains(x.plan.Freed, m.From) && x.stuck[m.From] == "" {
				x.stuck[m.From] = m.Pod
			}
			x.report(m.Pod + " stays: " + why)
		}
	}
	end := x.Clock.Now().Add(x.Wait)
	for {
		missing, err := x.collect(ctx)
		if err != nil {
			return err
		}
		if len(missing) == 0 {
			break
		}
		if x.Clock.Now().After(end) {
			return late(missing, x.Wait)
		}
		if err := x.pause(ctx); err != nil {
			return err
		}
	}
	for end = x.Clock.Now().Add(x.Wait); x.pods.ending() > 0 && !x.Clock.Now().After(end); {
		if err := x.pause(ctx); err != nil {
			return err
		}
	}
	return nil
}

// late says which pods did not come back.
func late(missing []due, wait time.Duration) error {
	d := missing[0]
	what := "its owner made no new pod; it may have been scaled down or rolled out"
	if d.pod != nil {
		what = fmt.Sprintf("%s/%s was made for it and does not run (%s)", d.pod.Namespace, d.pod.Name, d.pod.Status.Phase)
	}
	return fmt.Errorf("%w: %d pods did not come back in %v; %s: %s", ErrStopped, len(missing), wait, d.move.Pod, what)
}

// recheck lists the cluster, and returns why moves are not possible any more; "" for those that are.
func (x *run) recheck(ctx context.Context, moves []plan.Move) ([]string, error) {
	source, err := Look(ctx, x.Client, x.Clock.Now())
	if err != nil {
		return nil, err
	}
	plugins, end := context.WithCancel(ctx)
	defer end()
	state, err := plan.At(plugins, source, x.Profile)
	if err != nil {
		return nil, err
	}
	return state.Recheck(plugins, x.Limits, moves)
}

// evict evicts a pod, as soon as its budget allows; without a budget, as soon as no other pod of its owner is away. why says why it stays.
func (x *run) evict(ctx context.Context, m plan.Move) (why string, err error) {
	end, cancel := x.Clock.Now().Add(x.Wait), func() {}
	for asked, held := false, false; ; {
		if pod, stuck := x.stuck[m.From]; stuck {
			return fmt.Sprintf("%s stays in use for %s", m.From, pod), nil
		}
		namespace, name := split(m.Pod)
		old, err := x.Client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
		switch gone := apierrors.IsNotFound(err) || err == nil && (string(old.UID) != m.UID || old.DeletionTimestamp != nil); {
		case gone && asked: // the eviction whose answer was lost
			return "", nil
		case gone:
			return "it has ended or is being deleted", nil
		case err == nil && old.Spec.NodeName != m.From:
			cancel()
			return "it is on " + old.Spec.NodeName + " now", nil
		case err == nil && m.Budget == "" && x.pods.away(m, ownerOf(old)):
			err = errors.New("another pod of its owner is not back yet")
		case err == nil:
			cancel()
			if err := x.hold(ctx, m, old, &held); err != nil {
				return "", err
			}
			cancel = x.pods.expect(m, old)
			err = x.Client.PolicyV1().Evictions(namespace).Evict(ctx, &policyv1.Eviction{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
				DeleteOptions: &metav1.DeleteOptions{
					Preconditions: &metav1.Preconditions{UID: &old.UID, ResourceVersion: ptr.To(old.ResourceVersion)},
				},
			})
			if err == nil {
				x.report("evicted " + m.Pod)
				return "", nil
			}
			if asked = !refused(err); !asked {
				cancel() // a new pod of the owner would be another one's
			}
		}
		if apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) {
			cancel()
			return "", err
		}
		if x.Clock.Now().After(end) {
			if asked {
				return "", fmt.Errorf("%w: whether %s was evicted is not known: %w", ErrStopped, m.Pod, err)
			}
			cancel()
			return fmt.Sprintf("it could not be evicted for %v: %v", x.Wait, err), nil
		}
		if err := x.pause(ctx); err != nil {
			return "", err
		}
		if _, err := x.collect(ctx); err != nil {
			return "", err
		}
	}
}

// hold keeps the destination of a move for the pod's successor, unless that is done.
func (x *run) hold(ctx context.Context, m plan.Move, pod *v1.Pod, done *bool) error {
	if *done {
		return nil
	}
	*done = true
	owner := ownerOf(pod)
	h := nodereservation.Reservation{
		Owner: owner, Pods: 1 + x.pods.on(m.To, owner), Until: x.Clock.Now().Add(2 * x.Wait),
		Room: resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{}), Priority: ptr.Deref(pod.Spec.Priority, 0),
	}
	if asks, _ := kube.Pod(pod); m.GPUs != "" {
		h.GPUs, h.GPU = []string{m.GPUs}, cluster.Resources{GPU: asks.Requests.GPU, GPUMilli: asks.Requests.GPUMilli}
	}
	return x.nodes.hold(ctx, m.To, h)
}

// refused reports whether the API server answered that it did not do what was asked.
func refused(err error) bool {
	return passes(err) || apierrors.IsTooManyRequests(err) || apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err)
}

// passes reports whether an error means that an object has changed or is gone.
func passes(err error) bool {
	return err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err) || apierrors.IsInvalid(err)
}

// collect notes the pods that are back, and returns those that are not.
func (x *run) collect(ctx context.Context) ([]due, error) {
	back, missing, err := x.pods.take(ctx)
	underWay.Set(float64(len(missing)))
	var larger error
	for _, d := range back {
		name := d.pod.Namespace + "/" + d.pod.Name
		m := Moved{d.move, name, d.pod.Spec.NodeName, d.pod.Annotations[kube.GPUIndexAnnotation]}
		x.out.Moved = append(x.out.Moved, m)
		x.report(name + " runs on " + d.pod.Spec.NodeName)
		x.say(ctx, d, m)
		if d.bigger() && larger == nil {
			larger = fmt.Errorf("%w: %s came back as %s with larger requests, so that the plan does not hold", ErrStopped, d.move.Pod, name)
		}
	}
	return missing, errors.Join(err, larger)
}

// pause waits for news of a pod, or a second.
func (x *run) pause(ctx context.Context) error {
	if err := x.nodes.renew(ctx); err != nil {
		return err
	}
	timer := x.Clock.NewTimer(time.Second)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C():
	case <-x.pods.changed:
	}
	return nil
}

func (x *run) report(what string) {
	if x.Progress != nil {
		x.Progress(len(x.out.Moved)+len(x.out.Stayed), what)
	}
}

// arrives waits until the pod for which the moves made room has a node.
func (x *run) arrives(ctx context.Context, pod string) error {
	namespace, name := split(pod)
	end := x.Clock.Now().Add(x.Wait)
	for {
		now, err := x.Client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
		switch {
		case err == nil && now.Spec.NodeName != "":
			x.out.Room = &plan.Place{Pod: pod, Node: now.Spec.NodeName}
			return nil
		case apierrors.IsNotFound(err):
			return fmt.Errorf("%w: %s is gone", ErrStopped, pod)
		case x.Clock.Now().After(end):
			return fmt.Errorf("%w: %s has no node after %v", ErrStopped, pod, x.Wait)
		}
		if err := x.pause(ctx); err != nil {
			return err
		}
	}
}

// split returns the parts of namespace/name.
func split(pod string) (namespace, name string) {
	namespace, name, _ = strings.Cut(pod, "/")
	return namespace, name
}

// nodes are the nodes that a run cordons, and those that it holds for the pods that move.
type nodes struct {
	client kubernetes.Interface
	clock  clock.Clock
	closed []string                                 // by this run
	marked time.Time                                // when the closed ones were marked last
	held   map[string][]nodereservation.Reservation // by node
}

// Release gives nodes back that a run cordoned or held which was killed, and returns the names of the cordoned ones.
func Release(ctx context.Context, c kubernetes.Interface) ([]string, error) {
	list, err := c.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	return nodereservation.GiveBack(ctx, c, pointers(list.Items), func(time.Time) bool { return true })
}

// close cordons nodes. Those that are cordoned already stay as they are.
func (n *nodes) close(ctx context.Context, names []string) error {
	n.marked = n.clock.Now()
	for _, name := range names {
		node, err := n.client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("cordon node %s: %w", name, err)
		}
		if node.Spec.Unschedulable {
			continue
		}
		n.closed = append(n.closed, name)
		if err := n.cordon(ctx, name, nodereservation.Moving(n.marked), true); err != nil {
			return err
		}
	}
	return nil
}

// renew keeps the nodes closed for as long as the run goes on.
func (n *nodes) renew(ctx context.Context) error {
	if n.clock.Since(n.marked) < nodereservation.CordonTime/3 {
		return nil
	}
	n.marked = n.clock.Now()
	for _, name := range n.closed {
		if err := n.cordon(ctx, name, nodereservation.Moving(n.marked), true); err != nil {
			return err
		}
	}
	return nil
}

// open gives the nodes back, but keeps those closed that are emptied.
func (n *nodes) open(ctx context.Context, keep []string) error {
	var errs []error
	for _, name := range n.closed {
		if slices.Contains(keep, name) {
			errs = append(errs, n.cordon(ctx, name, nodereservation.Emptied, true))
		} else {
			errs = append(errs, n.cordon(ctx, name, nil, nil))
		}
	}
	for name := range n.held {
		errs = append(errs, n.patch(ctx, name, map[string]any{kube.HoldsAnnotation: nil}, nil))
	}
	n.closed, n.held = nil, nil
	return errors.Join(errs...)
}

// hold adds h to a node's reservations. If its owner has a reservation there, that grows by one pod.
func (n *nodes) hold(ctx context.Context, name string, h nodereservation.Reservation) error {
	list := slices.Clone(n.held[name])
	if i := slices.IndexFunc(list, func(x nodereservation.Reservation) bool { return x.Owner == h.Owner }); i >= 0 {
		list[i].Pods, list[i].Until, list[i].GPUs = list[i].Pods+1, h.Until, slices.Concat(list[i].GPUs, h.GPUs)
	} else {
		list = append(list, h)
	}
	text, err := json.Marshal(list)
	if err != nil {
		return err
	}
	if n.held == nil {
		n.held = map[string][]nodereservation.Reservation{}
	}
	n.held[name] = list
	return n.patch(ctx, name, map[string]any{kube.HoldsAnnotation: string(text)}, nil)
}

// cordon sets a node's mark and whether it is cordoned; nil removes either.
func (n *nodes) cordon(ctx context.Context, name string, value, closed any) error {
	return n.patch(ctx, name, map[string]any{kube.DefragAnnotation: value}, map[string]any{"unschedulable": closed})
}

func (n *nodes) patch(ctx context.Context, name string, annotations, spec map[string]any) error {
	return nodereservation.Change{Node: name, Annotations: annotations, Spec: spec}.Patch(ctx, n.client)
}

// empty returns which of the nodes have no pods but those of DaemonSets, static pods and pods that have ended, and what the others have.
func (n *nodes) empty(ctx context.Context, names []string) (out []string, used []plan.Blocked, err error) {
	for _, name := range names {
		pods, err := n.client.CoreV1().Pods("").List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + name})
		if err != nil {
			return out, used, fmt.Errorf("list the pods of node %s: %w", name, err)
		}
		left := slices.DeleteFunc(pods.Items, func(p v1.Pod) bool { return !counts(p) })
		if len(left) == 0 {
			out = append(out, name)
			continue
		}
		why := left[0].Namespace + "/" + left[0].Name + " is there"
		if left[0].DeletionTimestamp != nil {
			why = left[0].Namespace + "/" + left[0].Name + " is still being deleted"
		}
		used = append(used, plan.Blocked{Node: name, Pods: len(left), Why: why})
	}
	return out, used, nil
}

// counts reports whether a pod keeps its node in use.
func counts(p v1.Pod) bool {
	owner := metav1.GetControllerOf(&p)
	return p.Status.Phase != v1.PodSucceeded && p.Status.Phase != v1.PodFailed &&
		(owner == nil || owner.Kind != "DaemonSet" && owner.Kind != "Node")
}

const (
	leaseName  = "gnnsched-defrag"
	leaseTime  = 15 * time.Second
	renewal    = 10 * time.Second
	retryAfter = 2 * time.Second
)

// errLost is why moves end.
var errLost = errors.New("another process holds the lease " + leaseName + " now")

// Alone calls work while this process holds the lease in a namespace. While another process holds it, Alone waits, and says so once by
// waits. If the lease is lost, the context of work ends. The lease is given back when work has ended.
func Alone(ctx context.Context, c kubernetes.Interface, namespace string, waits func(holder string),
	work func(context.Context) error) error {
	host, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("this machine's name: %w", err)
	}
	// A process that may not read the lease would try for ever.
	if _, err := c.CoordinationV1().Leases(namespace).Get(ctx, leaseName, metav1.GetOptions{}); ctx.Err() != nil {
		return context.Cause(ctx)
	} else if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("the lease %s/%s: %w", namespace, leaseName, err)
	}
	self := fmt.Sprintf("%s_%d_%x", host, os.Getpid(), time.Now().UnixNano())
	holds, release := context.WithCancel(context.WithoutCancel(ctx))
	defer release()
	var once sync.Once // either work begins, or ctx has ended before
	ended := make(chan error, 1)
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Name: leaseName, LeaseDuration: leaseTime, RenewDeadline: renewal, RetryPeriod: retryAfter, ReleaseOnCancel: true,
		Lock: &resourcelock.LeaseLock{
			LeaseMeta: metav1.ObjectMeta{Namespace: namespace, Name: leaseName}, Client: c.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: self},
		},
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(leads context.Context) {
				once.Do(func() {
					working, lose := context.WithCancelCause(ctx)
					defer lose(nil)
					defer context.AfterFunc(leads, func() { lose(errLost) })()
					ended <- work(working)
					release()
				})
			},
			OnStoppedLeading: func() {},
			OnNewLeader: func(holder string) {
				if holder != self && holder != "" {
					waits(holder)
				}
			},
		},
	})
	if err != nil {
		return fmt.Errorf("the lease %s/%s: %w", namespace, leaseName, err)
	}
	defer context.AfterFunc(ctx, func() {
		once.Do(func() {
			ended <- context.Cause(ctx)
			release()
		})
	})()
	elector.Run(holds)
	return <-ended
}
