package soak

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// fault is a kind of failure. Its weight is relative to the other faults' weights.
type fault struct {
	name   string
	weight int
	kills  bool // ends a scheduler or the cluster, so that memory cannot be compared across it
	// do makes it happen and reports false if it could not.
	do func(ctx context.Context, s *soak, r *rand.Rand) bool
}

var faults = []fault{
	{"scheduler killed", 25, true, func(_ context.Context, s *soak, r *rand.Rand) bool {
		return s.fleet.schedulers[r.IntN(len(s.fleet.schedulers))].end(syscall.SIGKILL)
	}},
	{"all schedulers killed", 8, true, func(_ context.Context, s *soak, _ *rand.Rand) bool {
		for _, p := range s.fleet.schedulers {
			p.end(syscall.SIGKILL)
		}
		return true
	}},
	{"scheduler stopped", 8, true, func(_ context.Context, s *soak, r *rand.Rand) bool {
		return s.fleet.schedulers[r.IntN(len(s.fleet.schedulers))].end(syscall.SIGTERM)
	}},
	{"defragmenter killed", 10, false, func(_ context.Context, s *soak, _ *rand.Rand) bool { return s.fleet.defrag.end(syscall.SIGKILL) }},
	{"share resumed", 20, true, func(ctx context.Context, s *soak, _ *rand.Rand) bool { return s.resumeShare(ctx) }},
	{"cluster killed", 14, true, func(_ context.Context, s *soak, _ *rand.Rand) bool { return s.endCluster(syscall.SIGKILL) }},
	{"cluster stopped", 5, true, func(_ context.Context, s *soak, _ *rand.Rand) bool { return s.endCluster(syscall.SIGTERM) }},
	{"trainer killed", 10, false, func(_ context.Context, s *soak, r *rand.Rand) bool {
		pids := s.fleet.trainers()
		return len(pids) > 0 && syscall.Kill(pids[r.IntN(len(pids))], syscall.SIGKILL) == nil
	}},
	{"node lost", 18, false, func(ctx context.Context, s *soak, r *rand.Rand) bool { return s.loseNode(ctx, r) }},
	{"checkpoint swapped", 12, false, func(ctx context.Context, s *soak, r *rand.Rand) bool {
		return s.fleet.swapCheckpoint(ctx, r) == nil
	}},
}

// endCluster ends the cluster, which is started again.
func (s *soak) endCluster(how syscall.Signal) bool {
	s.outage.Store(time.Now().UnixNano())
	return s.fleet.cluster.end(how)
}

// loseNode deletes a node with its pods running and creates it again after up to a minute. Kubernetes deletes the pods of a node that is
// gone for 40 seconds.
func (s *soak) loseNode(ctx context.Context, r *rand.Rand) bool {
	names := s.nodeNames()
	name := names[r.IntN(len(names))]
	nodes := s.client.CoreV1().Nodes()
	n, err := nodes.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return false
	}
	published, err := s.slicesOf(ctx, name)
	if err != nil || nodes.Delete(ctx, name, metav1.DeleteOptions{}) != nil {
		return false
	}
	away := time.Duration(1+r.IntN(60)) * time.Second
	s.lostNodes.Add(1)
	go func() {
		defer s.lostNodes.Done()
		select {
		case <-time.After(away):
		case <-s.heal:
		case <-ctx.Done():
			return
		}
		s.restoreNode(ctx, n, published)
	}()
	return true
}

// restoreNode creates a node and its slices again from their earlier state. kwokcluster may have done so at its restart.
func (s *soak) restoreNode(ctx context.Context, was *corev1.Node, published []resourceapi.ResourceSlice) {
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: was.Name, Labels: was.Labels, Annotations: was.Annotations}, Spec: was.Spec, Status: was.Status,
	}
	n.Spec.Taints = nil // the node lifecycle controller's
	for ctx.Err() == nil {
		_, err := s.client.CoreV1().Nodes().Create(ctx, n, metav1.CreateOptions{})
		if err == nil || apierrors.IsAlreadyExists(err) {
			if is, err := s.client.CoreV1().Nodes().Get(ctx, n.Name, metav1.GetOptions{}); err == nil {
				s.restoreSlices(ctx, is, published)
				return
			}
		}
		pause(ctx, pollEvery)
	}
}

// recoverWithin is the time after a fault in which a pod must be bound while pods wait.
const recoverWithin = 3 * time.Minute

// recovery counts a fault, and holds the times after it until a pod was bound again.
type recovery struct {
	count int
	after []time.Duration
}

// recoveries are the recoveries by the fault's name.
type recoveries struct {
	mu     sync.Mutex
	byName map[string]*recovery
}

func (a *recoveries) happened(name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.byName == nil {
		a.byName = map[string]*recovery{}
	}
	if a.byName[name] == nil {
		a.byName[name] = &recovery{}
	}
	a.byName[name].count++
}

func (a *recoveries) recovered(name string, after time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.byName[name].after = append(a.byName[name].after, after)
}

// lines describes the faults, one a line.
func (a *recoveries) lines() (out []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, f := range faults {
		r := a.byName[f.name]
		if r == nil {
			continue
		}
		line := fmt.Sprintf("%-22s %5d times", f.name, r.count)
		if slices.Sort(r.after); len(r.after) > 0 {
			line += fmt.Sprintf(", pods are bound again after %.1f s (median), %.1f s at most", r.after[len(r.after)/2].Seconds(),
				r.after[len(r.after)-1].Seconds())
		}
		out = append(out, line)
	}
	return out
}

// kills counts the faults that ended a process.
func (a *recoveries) kills() (n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for name, r := range a.byName {
		if !slices.Contains([]string{"node lost", "checkpoint swapped", "defragmenter killed"}, name) {
			n += r.count
		}
	}
	return n
}

// fail makes one fault after another until enough is done, and faults that kill only if kills is set. After each it waits until a pod is
// bound. Delayed parts of a fault, such as the return of a node, end only with ctx.
func (s *soak) fail(ctx, enough context.Context, r *rand.Rand, kills bool) {
	var possible []fault
	total := 0
	for _, f := range faults {
		if (kills || !f.kills) && (f.name != "trainer killed" || s.config.Trainer != "") {
			possible = append(possible, f)
			total += f.weight
		}
	}
	for {
		if pause(enough, time.Duration((0.5+r.Float64())*float64(s.config.Every))); enough.Err() != nil {
			return
		}
		at := r.IntN(total)
		f := possible[slices.IndexFunc(possible, func(f fault) bool { at -= f.weight; return at < 0 })]
		start := time.Now()
		if !f.do(ctx, s, r) {
			continue
		}
		s.recoveries.happened(f.name)
		pause(enough, 200*time.Millisecond) // bindings on their way end
		s.waitBound(enough, f, s.book.census().totals.bound, start)
	}
}

// waitBound waits until a pod is bound after a fault.
func (s *soak) waitBound(ctx context.Context, f fault, before int, start time.Time) {
	for ctx.Err() == nil {
		c := s.book.census()
		switch {
		case c.totals.bound > before:
			if f.kills {
				s.recoveries.recovered(f.name, time.Since(start))
			}
			return
		case time.Since(start) > recoverWithin && c.waiting > 0:
			s.book.add(violation{
				kind: lost, pods: s.book.unbound(), detail: fmt.Sprintf("no pod was bound within %v of a fault: %s", recoverWithin, f.name),
			})
			return
		}
		pause(ctx, 100*time.Millisecond)
	}
}

// pollEvery is the time between two tries of a request.
const pollEvery = 200 * time.Millisecond

// pause waits for d or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
