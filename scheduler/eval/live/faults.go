package live

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes/scheme"

	"gnnsched/internal/exit"
	"gnnsched/scheduler/plugin/canary"
	"gnnsched/scheduler/plugin/userconfig"
)

// fault is a kind of failure. Its weight is relative to the other faults' weights.
type fault struct {
	name   string
	weight int
	kills  bool // ends a scheduler or the cluster, so that memory cannot be compared across it
	// do makes it happen and reports false if it could not.
	do func(ctx context.Context, r *rand.Rand) bool

	count atomic.Int64
	after []time.Duration // until a pod was bound again
}

// resumed is the fault in which a person starts a stopped share again.
const resumed = "share resumed"

func (s *soak) allFaults() []*fault {
	end := func(how syscall.Signal) func(context.Context, *rand.Rand) bool {
		return func(_ context.Context, r *rand.Rand) bool { return s.schedulers[r.IntN(len(s.schedulers))].end(how) }
	}
	endCluster := func(how syscall.Signal) func(context.Context, *rand.Rand) bool {
		return func(context.Context, *rand.Rand) bool {
			s.outage.Store(time.Now().UnixNano())
			return s.cluster.end(how)
		}
	}
	trainers := 0
	if s.config.Trainer != "" {
		trainers = 10
	}
	return []*fault{
		{name: "scheduler killed", weight: 25, kills: true, do: end(syscall.SIGKILL)},
		{name: "all schedulers killed", weight: 8, kills: true, do: func(context.Context, *rand.Rand) bool {
			for _, p := range s.schedulers {
				p.end(syscall.SIGKILL)
			}
			return true
		}},
		{name: "scheduler stopped", weight: 8, kills: true, do: end(syscall.SIGTERM)},
		{name: "defragmenter killed", weight: 10, do: func(context.Context, *rand.Rand) bool { return s.defrag.end(syscall.SIGKILL) }},
		{name: resumed, weight: 20, kills: true, do: func(ctx context.Context, _ *rand.Rand) bool { return s.resumeShare(ctx) }},
		{name: "cluster killed", weight: 14, kills: true, do: endCluster(syscall.SIGKILL)},
		{name: "cluster stopped", weight: 5, kills: true, do: endCluster(syscall.SIGTERM)},
		{name: "trainer killed", weight: trainers, do: func(context.Context, *rand.Rand) bool { return s.killTrainer() }},
		{name: "node lost", weight: 18, do: s.loseNode},
		{name: "checkpoint swapped", weight: 12, do: func(ctx context.Context, r *rand.Rand) bool { return s.swapCheckpoint(ctx, r) == nil }},
	}
}

// kills counts the faults that ended a scheduler or the cluster.
func (s *soak) kills() (n int64) {
	for _, f := range s.faults {
		if f.kills {
			n += f.count.Load()
		}
	}
	return n
}

// failingShare is the share of the run in which everything fails.
const failingShare = 0.6

// failing is the time in which everything fails. It is shorter where the rest must suffice to judge memory.
func (c Soak) failing() time.Duration {
	share := time.Duration(failingShare * float64(c.For))
	if c.For >= judgedFrom {
		return min(share, c.For-memoryWarmup-memoryWindow)
	}
	return share
}

// fail makes one fault after another until enough is done, and faults that kill only if kills is set. After each it waits until a pod is
// bound. Delayed parts of a fault, such as the return of a node, end only with ctx.
func (s *soak) fail(ctx, enough context.Context, r *rand.Rand, kills bool) {
	var possible []*fault
	total := 0
	for _, f := range s.faults {
		if kills || !f.kills {
			possible = append(possible, f)
			total += f.weight
		}
	}
	for {
		if pause(enough, time.Duration((0.5+r.Float64())*float64(s.config.Every))); enough.Err() != nil {
			return
		}
		at := r.IntN(total)
		f := possible[slices.IndexFunc(possible, func(f *fault) bool { at -= f.weight; return at < 0 })]
		if start := time.Now(); f.do(ctx, r) {
			f.count.Add(1)
			pause(enough, 200*time.Millisecond) // bindings on their way end
			s.waitBound(enough, f, start)
		}
	}
}

// recoverWithin is the time after a fault in which a pod must be bound while pods wait.
const recoverWithin = 3 * time.Minute

// waitBound waits until a pod is bound after a fault.
func (s *soak) waitBound(ctx context.Context, f *fault, start time.Time) {
	before := s.book.census()
	for ; ctx.Err() == nil; pause(ctx, 100*time.Millisecond) {
		now := s.book.census()
		switch {
		case now.bound > before.bound:
			if f.kills {
				f.after = append(f.after, time.Since(start))
			}
			return
		case time.Since(start) > recoverWithin && now.waiting > 0:
			s.book.add(about(lost, "no pod was bound within %v of a fault: %s; these wait: %v",
				recoverWithin, f.name, s.book.names((*record).waits)))
			return
		}
	}
}

// loseNode deletes a node with its pods running and creates it again after up to a minute. Kubernetes deletes the pods of a node that is
// gone for 40 seconds.
func (s *soak) loseNode(ctx context.Context, r *rand.Rand) bool {
	names := slices.Sorted(maps.Keys(s.book.capacity))
	name := names[r.IntN(len(names))]
	away := time.Duration(1+r.IntN(60)) * time.Second
	nodes, published := s.client.CoreV1().Nodes(), s.client.ResourceV1().ResourceSlices()
	node, err := nodes.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return false
	}
	ofNode := metav1.ListOptions{FieldSelector: resourceapi.ResourceSliceSelectorNodeName + "=" + name}
	devices, err := published.List(ctx, ofNode)
	if err != nil || nodes.Delete(ctx, name, metav1.DeleteOptions{}) != nil {
		return false
	}
	s.lostNodes.Go(func() {
		insist(ctx, func() error { return published.DeleteCollection(ctx, metav1.DeleteOptions{}, ofNode) })
		select {
		case <-time.After(away):
		case <-s.heal:
		case <-ctx.Done():
			return
		}
		s.restoreNode(ctx, node, devices.Items)
	})
	return true
}

// restoreNode creates a node and its slices again from their earlier state, unless kwokcluster has done so at its restart.
func (s *soak) restoreNode(ctx context.Context, was *corev1.Node, devices []resourceapi.ResourceSlice) {
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: was.Name, Labels: was.Labels, Annotations: was.Annotations}, Spec: was.Spec, Status: was.Status,
	}
	n.Spec.Taints = nil // the node lifecycle controller's
	var is *corev1.Node
	insist(ctx, func() (err error) {
		if is, err = s.client.CoreV1().Nodes().Create(ctx, n, metav1.CreateOptions{}); apierrors.IsAlreadyExists(err) {
			is, err = s.client.CoreV1().Nodes().Get(ctx, n.Name, metav1.GetOptions{})
		}
		return err
	})
	if ctx.Err() != nil {
		return
	}
	for _, d := range devices {
		d.ObjectMeta = metav1.ObjectMeta{
			Name: d.Name, GenerateName: d.GenerateName, Labels: d.Labels,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: n.Name, UID: is.UID}},
		}
		insist(ctx, func() error {
			_, err := s.client.ResourceV1().ResourceSlices().Create(ctx, &d, metav1.CreateOptions{})
			return err
		})
	}
}

// stopOf returns why the share is stopped; empty if it is not.
func (s *soak) stopOf(ctx context.Context) (why string, err error) {
	lease, err := s.client.CoordinationV1().Leases(metav1.NamespaceSystem).Get(ctx, userconfig.ShareLeaseOf(sharing), metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("read whether the share is stopped: %w", err)
	}
	return lease.Annotations[canary.StoppedAnnotation], nil
}

// unclean is part of the reason of a share that stopped because its process was killed.
const unclean = " unclean: "

// resumeShare acts as a person does after the process of a share was killed: it clears the stop and starts the schedulers again. It reports
// false if the share is not stopped.
func (s *soak) resumeShare(ctx context.Context) bool {
	if why, err := s.stopOf(ctx); err != nil || !strings.Contains(why, unclean) {
		return false
	}
	patch := fmt.Sprintf(`{"metadata": {"annotations": {%q: null}}}`, canary.StoppedAnnotation)
	_, err := s.client.CoordinationV1().Leases(metav1.NamespaceSystem).Patch(ctx, userconfig.ShareLeaseOf(sharing), types.MergePatchType,
		[]byte(patch), metav1.PatchOptions{})
	if err != nil {
		return false
	}
	for _, p := range s.schedulers[:leaders] {
		p.end(syscall.SIGTERM)
	}
	return true
}

// resumeShareLate resumes a stopped share before the part without kills. A process that begins to lead takes some time to find that the one
// before it was killed.
func (s *soak) resumeShareLate(ctx context.Context) {
	for late := time.Now().Add(min(shareLatency, s.config.For/10)); time.Now().Before(late) && ctx.Err() == nil; pause(ctx, pollEvery) {
		if s.resumeShare(ctx) {
			s.faults[slices.IndexFunc(s.faults, func(f *fault) bool { return f.name == resumed })].count.Add(1)
			return
		}
	}
}

// judgeShare reports a share that was stopped, unless a kill was the reason: its pods fare no worse than the rest.
func (s *soak) judgeShare(ctx context.Context) error {
	why, err := s.stopOf(ctx)
	if err != nil {
		return err
	}
	if why != "" && !(strings.Contains(why, unclean) && s.kills() > 0) {
		s.book.add(about(shareStopped, "%s", why))
	}
	for _, p := range s.schedulers {
		text, _ := p.read(ctx, "/metrics") // nothing while it is being started
		for line := range strings.Lines(text) {
			if strings.HasPrefix(line, "gnnsched_share_pods_total{") {
				s.lines = append(s.lines, strings.TrimSpace(line))
			}
		}
	}
	return nil
}

// pollEvery is the time between two tries of a request.
const pollEvery = 200 * time.Millisecond

// insist repeats a request until it succeeds or ctx ends. A try whose answer was lost may have created or deleted the object.
func insist(ctx context.Context, request func() error) {
	_ = wait.PollUntilContextCancel(ctx, pollEvery, true, func(context.Context) (bool, error) {
		err := request()
		return err == nil || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err), nil
	})
}

// pause waits for d or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// The keys of the pods and the claims in etcd begin with these.
const (
	podKeys   = "/registry/pods/" + namespace + "/"
	claimKeys = "/registry/resourceclaims/" + namespace + "/"
)

// observer reads the history of the pods and the claims from etcd into a book, in one order. etcd keeps every
// state of every object for five minutes at least, and the watch continues at the next revision after the
// cluster was killed, so the observer misses no state.
type observer struct {
	book     *book
	client   *clientv3.Client
	revision int64 // the latest that was read
}

func newObserver(b *book, socket string) (*observer, error) {
	if _, err := os.Stat(socket); err != nil {
		return nil, exit.New(exit.Usage, fmt.Errorf("find the cluster's etcd: %w", err),
			"paths of sockets are limited: choose a shorter folder with TMPDIR")
	}
	retry := grpc.ConnectParams{
		Backoff: backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, MaxDelay: time.Second}, MinConnectTimeout: time.Second,
	}
	c, err := clientv3.New(clientv3.Config{
		Endpoints: []string{"unix://" + socket}, Logger: zap.NewNop(), DialOptions: []grpc.DialOption{grpc.WithConnectParams(retry)},
	})
	if err != nil {
		return nil, fmt.Errorf("connect to the cluster's etcd: %w", err)
	}
	return &observer{book: b, client: c}, nil
}

// run reads the history from the beginning until ctx ends; then it returns nil.
func (o *observer) run(ctx context.Context) error {
	for ctx.Err() == nil {
		from := o.revision + 1
		// One watch from the first key to the last, because two would not come in one order.
		for r := range o.client.Watch(ctx, podKeys, clientv3.WithRange(clientv3.GetPrefixRangeEnd(claimKeys)), clientv3.WithRev(from)) {
			if r.CompactRevision > 0 {
				return fmt.Errorf("the history of etcd from revision %d to %d is compacted: the count has a gap", from, r.CompactRevision)
			}
			for _, e := range r.Events {
				if err := o.read(e); err != nil {
					return err
				}
			}
		}
		pause(ctx, pollEvery)
	}
	return nil
}

// read counts one event.
func (o *observer) read(e *clientv3.Event) error {
	if e.Kv.ModRevision < o.revision {
		return errors.New("the revisions of etcd went backwards: it lost writes that it had confirmed")
	}
	o.revision = e.Kv.ModRevision
	pod, isPod := strings.CutPrefix(string(e.Kv.Key), podKeys)
	claim, isClaim := strings.CutPrefix(string(e.Kv.Key), claimKeys)
	gone := e.Type == clientv3.EventTypeDelete
	switch {
	case !isPod && !isClaim:
		return nil
	case isPod && gone:
		o.book.gone(o.revision, pod)
		return nil
	case gone:
		o.book.goneClaim(o.revision, claim)
		return nil
	}
	obj, _, err := scheme.Codecs.UniversalDeserializer().Decode(e.Kv.Value, nil, nil)
	if err != nil {
		return fmt.Errorf("read %s from etcd: %w", e.Kv.Key, err)
	}
	switch x := obj.(type) {
	case *corev1.Pod:
		o.book.see(o.revision, x)
	case *resourceapi.ResourceClaim:
		o.book.seeClaim(o.revision, x)
	default:
		return fmt.Errorf("read %s from etcd: it is a %T", e.Kv.Key, obj)
	}
	return nil
}
