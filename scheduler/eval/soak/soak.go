package soak

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"gnnsched/internal/exit"
	"gnnsched/internal/kubeconfig"
)

// soak is one run.
type soak struct {
	config Config
	fleet  *fleet
	book   *book
	client kubernetes.Interface

	memory     memory
	recoveries recoveries
	part       atomic.Int32
	started    time.Time
	calm       time.Time     // when schedulers and cluster were killed no more
	stopped    time.Time     // when pods stopped coming
	outage     atomic.Int64  // when the cluster was last ended or found down, in ns of Unix time
	heal       chan struct{} // closed to bring back lost nodes at once
	lostNodes  sync.WaitGroup

	sharePods []string // metrics of the shared profile's groups, at the end
	shadowed  string   // the shadow's report
}

// Run soaks, and writes progress and the count to c.Out. Its error has exit code exit.Gate if anything
// happened that must not. When ctx ends, Run writes the count so far. When it returns, all programs
// that it started have ended; their files stay if something went wrong.
func Run(ctx context.Context, c Config) (err error) {
	if err := c.Validate(); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "gnnsched-soak-")
	if err != nil {
		return fmt.Errorf("make a directory for the cluster: %w", err)
	}
	defer func() {
		if err == nil || ctx.Err() != nil && exit.Code(err) != exit.Gate {
			err = errors.Join(err, os.RemoveAll(dir))
			return
		}
		fmt.Fprintf(c.Out, "logs and data: %s\n", dir)
	}()
	s := &soak{config: c, book: newBook(machines(pools(c.Nodes))), heal: make(chan struct{}), started: time.Now()}
	if s.fleet, err = newFleet(c, dir); err != nil {
		return err
	}
	s.say("%v with seed %d, %d nodes, %d pods at a time, schedulers: %d, besides a rival and a shadow, profiles: %s",
		c.For, c.Seed, c.Nodes, c.Pods, c.Schedulers, strings.Join(profileNames, ", "))
	if c.Trainer == "" {
		s.say("gnntrain is not built: no profile learns, and no trainer is killed; build it with `make trainer`")
	}
	return s.withCluster(ctx)
}

// withCluster starts the cluster, runs everything else and stops the cluster.
func (s *soak) withCluster(ctx context.Context) error {
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan error, 1)
	go func() { done <- s.fleet.cluster.run(life, s.clusterEnded) }()
	err := s.prepare(ctx)
	if err == nil {
		err = s.withSchedulers(ctx)
	}
	end()
	return errors.Join(err, <-done)
}

// clusterEnded counts an unrequested end of the cluster.
func (s *soak) clusterEnded(state *os.ProcessState) {
	s.outage.Store(time.Now().UnixNano())
	s.book.add(violation{kind: ended, detail: fmt.Sprintf("kwokcluster: %v: %s", state, s.fleet.cluster.lastLine())})
}

// prepare waits for the cluster and creates the namespace, the templates of claims and the priority class.
func (s *soak) prepare(ctx context.Context) error {
	s.say("starting the cluster")
	if err := s.fleet.waitReady(ctx); err != nil {
		return err
	}
	client, config, err := kubeconfig.Target{Kubeconfig: kubeconfig.SimulatedKubeconfig(s.fleet.folder())}.Connect(ctx)
	if err != nil {
		return err
	}
	s.client = client
	if _, err := client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}},
		metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create the namespace: %w", err)
	}
	if err := s.createTemplates(ctx); err != nil {
		return err
	}
	class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: urgent}, Value: 1000}
	if _, err := client.SchedulingV1().PriorityClasses().Create(ctx, class, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create the priority class: %w", err)
	}
	if err := s.createSets(ctx); err != nil {
		return err
	}
	return s.fleet.prepareSchedulers(config)
}

// withSchedulers starts observer and schedulers, runs the parts, and stops the schedulers.
func (s *soak) withSchedulers(ctx context.Context) error {
	socket, err := s.fleet.socket()
	if err != nil {
		return err
	}
	observer, err := newObserver(s.book, socket, namespace)
	if err != nil {
		return err
	}
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	working, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	var helpers sync.WaitGroup
	helper := func(run func() error) {
		helpers.Go(func() {
			if err := run(); err != nil {
				fail(err)
			}
		})
	}
	helper(func() error { return observer.run(life) })
	for _, p := range append(slices.Clone(s.fleet.schedulers), s.fleet.defrag) {
		helper(func() error { return p.run(life, func(state *os.ProcessState) { s.schedulerEnded(p, state) }) })
	}
	helper(func() error { s.sampleMemory(life); return nil })
	helper(func() error { s.showProgress(life); return nil })
	err = s.parts(working)
	end()
	helpers.Wait()
	if err == nil {
		s.judgeShadow()
	}
	s.writeCount()
	if cause := context.Cause(working); err != nil && cause != nil {
		err = cause
	}
	return errors.Join(err, observer.close(), s.verdict())
}

// outageReach is the time after an outage of the cluster in which schedulers may end: they cannot start
// without the API server.
const outageReach = 30 * time.Second

// schedulerEnded counts an unrequested end of a scheduler, unless the cluster was down.
func (s *soak) schedulerEnded(p *process, state *os.ProcessState) {
	if time.Since(time.Unix(0, s.outage.Load())) > outageReach {
		s.book.add(violation{kind: ended, detail: fmt.Sprintf("%s: %v: %s", p.name, state, p.lastLine())})
	}
}

// parts runs the three parts.
func (s *soak) parts(ctx context.Context) error {
	r := rand.New(rand.NewPCG(s.config.Seed, 1))
	ends := time.Now().Add(s.config.For)
	churning, stop := context.WithDeadline(ctx, ends)
	defer stop()
	done := make(chan struct{})
	c := churn{soak: s}
	go func() { defer close(done); c.run(ctx, churning) }()

	failing, stopFailing := context.WithTimeout(churning, s.config.failing())
	defer stopFailing()
	s.fail(ctx, failing, r, true)
	// A process that begins to lead takes some time to find that the one before it was killed.
	for late := time.Now().Add(min(shareLatency, s.config.For/10)); time.Now().Before(late) && ctx.Err() == nil; pause(ctx, pollEvery) {
		if s.resumeShare(ctx) {
			s.recoveries.happened("share resumed")
			break
		}
	}
	s.part.Store(int32(noKills))
	s.calm = time.Now()
	s.fail(ctx, churning, r, false)
	<-done
	s.stopped = time.Now()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	s.part.Store(int32(draining))
	return s.drain(ctx)
}

// stalled is the time without a pod that is bound or deleted after which draining ends.
const stalled = 2 * time.Minute

// drain brings the nodes back and deletes pods until none waits that has room. Then it compares the
// count with the API server.
func (s *soak) drain(ctx context.Context) error {
	close(s.heal)
	s.lostNodes.Wait()
	s.orphanSets(ctx)
	before, moved := 0, time.Now()
	for !s.book.settled() && time.Since(moved) < stalled && ctx.Err() == nil {
		for _, name := range s.book.bound() {
			s.deletePod(ctx, name, false)
		}
		if c := s.book.census(); c.totals.bound+c.totals.deleted != before {
			before, moved = c.totals.bound+c.totals.deleted, time.Now()
		}
		pause(ctx, 500*time.Millisecond)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	s.book.judgeUnbound()
	return errors.Join(s.judgeShare(ctx), s.compare(ctx))
}

// compareWithin is the time in which the count must agree with the API server once nothing happens any
// more.
const compareWithin = 2 * time.Minute

// compare deletes all pods and waits until the API server lists none, as the count expects. Their claims must go, too.
func (s *soak) compare(ctx context.Context) error {
	start := time.Now()
	for {
		for _, name := range append(s.book.bound(), s.book.unbound()...) {
			s.deletePod(ctx, name, false)
		}
		list, err := s.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
		if ctx.Err() != nil {
			return ctx.Err()
		}
		var names []string
		if err == nil {
			for _, p := range list.Items {
				names = append(names, p.Name)
			}
		}
		d, claims := s.book.differences(names), s.book.claimNames()
		if err == nil && len(d) == 0 && len(names) == 0 && len(claims) == 0 {
			return nil
		}
		if time.Since(start) > compareWithin {
			for _, v := range d {
				s.book.add(v)
			}
			if len(claims) > 0 {
				s.book.add(violation{kind: claimLeft, detail: fmt.Sprintf("no pod exists, and these claims do: %v", claims)})
			}
			if len(d) == 0 && len(names) > 0 {
				s.book.add(violation{kind: miscounted, pods: names, detail: "the API server accepted its deletion, and it still exists"})
			}
			return err
		}
		pause(ctx, pollEvery)
	}
}

// nodeNames returns the names of the nodes for pods, in order.
func (s *soak) nodeNames() []string { return slices.Sorted(maps.Keys(s.book.capacity)) }

// Config sets the duration and the load of a soak.
type Config struct {
	For        time.Duration // pods come and go for so long; then the count takes a minute or two
	Seed       uint64        // of pods, of faults and of their times
	Nodes      int           // of the simulated cluster
	Pods       int           // that exist at the same time
	Every      time.Duration // mean pause after a fault, from when pods are bound again
	Schedulers int           // processes; more than one elect a leader

	Kwokcluster string // path of the program
	Scheduler   string // path of gnnsched
	Trainer     string // path of gnntrain; empty: nothing learns

	Out io.Writer // for progress and the count
}

// Validate checks the values. Its errors have the exit code exit.Usage.
func (c Config) Validate() error {
	switch {
	case c.For < 10*time.Second:
		return exit.Usagef("a soak of %v: choose 10s or more", c.For)
	case c.Nodes < 4 || c.Nodes > 5000:
		return exit.Usagef("%d nodes: choose 4 to 5000", c.Nodes)
	case c.Pods < 10 || c.Pods > 100*c.Nodes:
		return exit.Usagef("%d pods at the same time: choose 10 to %d for %d nodes", c.Pods, 100*c.Nodes, c.Nodes)
	case c.Every < 0:
		return exit.Usagef("a pause of %v between faults: choose 0 or more", c.Every)
	case c.Schedulers < 1 || c.Schedulers > 5:
		return exit.Usagef("%d schedulers: choose 1 to 5", c.Schedulers)
	}
	return nil
}

// part is a part of a run.
type part int

const (
	everythingFails part = iota
	noKills              // of schedulers and of the cluster
	draining
)

func (p part) String() string {
	return []string{"everything fails", "no kills", "draining"}[p]
}

// failingShare is the share of the run in which everything fails.
const failingShare = 0.6

// failing is the time in which everything fails. It is shorter where the rest must suffice to judge memory.
func (c Config) failing() time.Duration {
	share := time.Duration(failingShare * float64(c.For))
	if c.For >= judgedFrom {
		return min(share, c.For-memoryWarmup-memoryWindow)
	}
	return share
}

func clock(d time.Duration) string {
	s := int(d.Seconds())
	return fmt.Sprintf("%d:%02d", s/60, s%60)
}

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
