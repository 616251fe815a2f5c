package live

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"gnnsched/internal/exit"
	"gnnsched/internal/kubeconfig"
)

// Soak sets the duration and the load of a soak.
type Soak struct {
	For   time.Duration // pods come and go for so long; then the count takes a minute or two
	Seed  uint64        // of pods, of faults and of their times
	Nodes int           // of the simulated cluster
	Pods  int           // that exist at the same time
	Every time.Duration // mean pause after a fault, from when pods are bound again

	Kwokcluster string // path of the program
	Scheduler   string // path of gnnsched
	Trainer     string // path of gnntrain; empty: nothing learns

	Out io.Writer // for progress and the count
}

// Validate checks the values. Its errors have the exit code exit.Usage.
func (c Soak) Validate() error {
	switch {
	case c.For < 10*time.Second:
		return exit.Usagef("a soak of %v: choose 10s or more", c.For)
	case c.Nodes < 4 || c.Nodes > 5000:
		return exit.Usagef("%d nodes: choose 4 to 5000", c.Nodes)
	case c.Pods < 10 || c.Pods > 100*c.Nodes:
		return exit.Usagef("%d pods at the same time: choose 10 to %d for %d nodes", c.Pods, 100*c.Nodes, c.Nodes)
	case c.Every < 0:
		return exit.Usagef("a pause of %v between faults: choose 0 or more", c.Every)
	}
	return nil
}

// The parts of a run.
const (
	everythingFails = "everything fails"
	noKills         = "no kills" // of schedulers and of the cluster
	draining        = "draining"
)

// soak is one run.
type soak struct {
	config Soak
	dir    string
	book   *book
	client kubernetes.Interface

	cluster, defrag *program
	schedulers      []*program // the rival and the shadow are the last two
	faults          []*fault
	heaps           map[string][]sample // of the schedulers, by process

	part      atomic.Value // a string
	started   time.Time
	calm      time.Time     // when schedulers and cluster were killed no more
	stopped   time.Time     // when pods stopped coming
	created   atomic.Int64  // pods
	outage    atomic.Int64  // when the cluster was last ended or found down, in ns of Unix time
	heal      chan struct{} // closed to bring back lost nodes at once
	lostNodes sync.WaitGroup
	lines     []string // lines about the share and the shadow, at the end
}

// Run soaks, and writes progress and the count to c.Out. Its error has exit code exit.Gate if anything
// happened that must not. When ctx ends, Run writes the count so far. When it returns, all programs
// that it started have ended; their files stay if something went wrong.
func (c Soak) Run(ctx context.Context) (err error) {
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
	s := &soak{
		config: c, dir: dir, book: newBook(machines(pools(c.Nodes))), heal: make(chan struct{}), started: time.Now(),
		heaps: map[string][]sample{},
	}
	s.part.Store(everythingFails)
	s.faults = s.allFaults()
	if err := s.prepareCluster(); err != nil {
		return err
	}
	s.say("%v with seed %d, %d nodes, %d pods at a time, %d schedulers besides a rival and a shadow, profiles: %s",
		c.For, c.Seed, c.Nodes, c.Pods, leaders, strings.Join(profileNames, ", "))
	if c.Trainer == "" {
		s.say("gnntrain is not built: no profile learns, and no trainer is killed; build it with `make trainer`")
	}
	return s.withCluster(ctx)
}

// withCluster starts the cluster, runs everything else and stops the cluster.
func (s *soak) withCluster(ctx context.Context) error {
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan error, 1)
	go func() {
		done <- s.cluster.run(life, func(cause error) {
			s.outage.Store(time.Now().UnixNano())
			s.book.add(about(ended, "%v", cause))
		})
	}()
	err := s.prepare(ctx)
	if err == nil {
		err = s.withSchedulers(ctx)
	}
	end()
	return errors.Join(err, <-done)
}

// startWithin is the time in which the cluster must be ready.
const startWithin = 3 * time.Minute

// prepare waits for the cluster and prepares what runs on it.
func (s *soak) prepare(ctx context.Context) error {
	s.say("starting the cluster")
	ready, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	for exec.CommandContext(ready, s.config.Kwokcluster, "status", "--dir", s.folder()).Run() != nil {
		if pause(ready, pollEvery); ready.Err() != nil {
			return fmt.Errorf("the cluster was not ready: %w; its output is in %s", context.Cause(ready), s.cluster.log)
		}
	}
	client, target, err := kubeconfig.Target{Kubeconfig: kubeconfig.SimulatedKubeconfig(s.folder())}.Connect(ctx)
	if err != nil {
		return err
	}
	s.client = client
	return errors.Join(s.createObjects(ctx), s.prepareSchedulers(target))
}

// outageReach is the time after an outage of the cluster in which schedulers may end: they cannot start
// without the API server.
const outageReach = 30 * time.Second

// withSchedulers starts observer and schedulers, runs the parts, and stops the schedulers.
func (s *soak) withSchedulers(ctx context.Context) error {
	observer, err := newObserver(s.book, filepath.Join(s.folder(), "run", "etcd.sock"))
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
	for _, p := range slices.Concat(s.schedulers, []*program{s.defrag}) {
		helper(func() error {
			return p.run(life, func(cause error) {
				if time.Since(time.Unix(0, s.outage.Load())) > outageReach {
					s.book.add(about(ended, "%v", cause))
				}
			})
		})
	}
	helpers.Go(func() { s.sampleMemory(life) })
	helpers.Go(func() { s.showProgress(life) })
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
	return errors.Join(err, observer.client.Close(), s.verdict())
}

// parts runs the three parts.
func (s *soak) parts(ctx context.Context) error {
	r := rand.New(rand.NewPCG(s.config.Seed, 1))
	churning, stop := context.WithTimeout(ctx, s.config.For)
	defer stop()
	var churn sync.WaitGroup
	for i := range workers {
		churn.Go(func() { s.churn(ctx, churning, rand.New(rand.NewPCG(s.config.Seed, uint64(1000+i)))) })
	}
	failing, stopFailing := context.WithTimeout(churning, s.config.failing())
	defer stopFailing()
	s.fail(ctx, failing, r, true)
	s.resumeShareLate(ctx)
	s.part.Store(noKills)
	s.calm = time.Now()
	s.fail(ctx, churning, r, false)
	churn.Wait()
	s.stopped = time.Now()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	s.part.Store(draining)
	return s.drain(ctx)
}

// workers is the number of goroutines that create and delete pods.
const workers = 8

// churn creates and deletes pods until enough is done. It keeps about the configured number of pods alive, and creates no more while a
// quarter of them wait for a node, so that its speed follows the schedulers'. Running requests end only with ctx, because the result of an
// aborted request is unknown.
func (s *soak) churn(ctx, enough context.Context, r *rand.Rand) {
	for enough.Err() == nil {
		now := s.book.census()
		if now.live < s.config.Pods && now.waiting < max(s.config.Pods/4, workers) {
			s.createPod(ctx, newPod(r, s.created.Add(1), profileNames[r.IntN(len(profileNames))]))
			continue
		}
		rarely := r.IntN(20) == 0
		all := s.book.names(func(x *record) bool {
			return x.ours && x.seen && !x.deleting && x.evicted == "" && (rarely || x.node != "")
		})
		if len(all) == 0 {
			pause(ctx, 20*time.Millisecond)
			continue
		}
		s.deletePod(ctx, all[r.IntN(len(all))], r.IntN(2) == 0)
	}
}

// createPod creates a pod, and tries again until the API server accepts it or ctx ends.
func (s *soak) createPod(ctx context.Context, p *corev1.Pod) {
	s.book.expect(p.Name)
	insist(ctx, func() error {
		_, err := s.client.CoreV1().Pods(namespace).Create(ctx, p, metav1.CreateOptions{})
		return err
	})
}

// deletePod deletes a pod that is not deleted yet, and tries again until the API server has done so or ctx ends.
func (s *soak) deletePod(ctx context.Context, name string, gracefully bool) {
	if !s.book.deleting(name) {
		return
	}
	var o metav1.DeleteOptions
	if !gracefully {
		o.GracePeriodSeconds = new(int64)
	}
	insist(ctx, func() error { return s.client.CoreV1().Pods(namespace).Delete(ctx, name, o) })
}

// stalled is the time without a pod that is bound or deleted after which draining ends.
const stalled = 2 * time.Minute

// drain brings the nodes back and deletes pods until none waits that has room. Then it compares the
// count with the API server.
func (s *soak) drain(ctx context.Context) error {
	close(s.heal)
	s.lostNodes.Wait()
	sets := s.client.AppsV1().ReplicaSets(namespace)
	insist(ctx, func() error { // they go, and leave their pods
		orphan := metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationOrphan)}
		err := sets.DeleteCollection(ctx, orphan, metav1.ListOptions{})
		left, e := sets.List(ctx, metav1.ListOptions{})
		if e == nil && len(left.Items) > 0 {
			e = errors.New("there are ReplicaSets")
		}
		return errors.Join(err, e)
	})
	before, moved := 0, time.Now()
	for !s.book.settled() && time.Since(moved) < stalled && ctx.Err() == nil {
		for _, name := range s.book.names(func(r *record) bool { return r.node != "" }) {
			s.deletePod(ctx, name, false)
		}
		if now := s.book.census(); now.bound+now.deleted != before {
			before, moved = now.bound+now.deleted, time.Now()
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
	for start := time.Now(); ; pause(ctx, pollEvery) {
		for _, name := range s.book.names(func(*record) bool { return true }) {
			s.deletePod(ctx, name, false)
		}
		list, err := s.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
		if ctx.Err() != nil {
			return ctx.Err()
		}
		var left []violation
		if err == nil {
			if left = s.book.leftovers(list.Items); len(left) == 0 {
				return nil
			}
		}
		if time.Since(start) > compareWithin {
			s.book.add(left...)
			return err
		}
	}
}

// Memory is judged by the heap after a garbage collection that the soak asks for. After memoryWarmup without kills, the lower quartile of
// the last third may exceed the first third's by memoryTolerance.
//
// Upstream's event recorder keeps every event for six to twelve minutes, most of the heap, in proportion to the pods of these minutes, and
// its histograms still grow a little. So the warm-up is as long as the recorder keeps an event, the thirds are as long as its heap rises
// and falls, and the tolerance is wide: a leak of a kilobyte a pod exceeds it.
const (
	memoryTolerance = 0.5
	eventsKept      = 6 * time.Minute // finishTime of client-go's events.eventBroadcasterImpl
	memoryWarmup    = 2 * eventsKept
	memoryWindow    = 3 * eventsKept // the shortest after warm-up that is judged
)

// judgedFrom is the shortest run whose memory is judged.
const judgedFrom = memoryWarmup + memoryWindow + 2*time.Minute

// sample is the heap of one scheduler at one time, in bytes.
type sample struct {
	at   time.Time
	heap float64
}

// sampleMemory samples the schedulers' memory while they are not killed.
func (s *soak) sampleMemory(ctx context.Context) {
	for ; ctx.Err() == nil; pause(ctx, 2*time.Second) {
		if s.part.Load() != noKills {
			continue
		}
		for _, p := range s.schedulers {
			pid, heap := p.pid(), 0.0
			text, err := p.read(ctx, "/debug/pprof/heap", "gc", "debug")
			_, figure, _ := strings.Cut(text, "# HeapAlloc = ")
			if _, none := fmt.Sscan(figure, &heap); err == nil && none == nil && pid == p.pid() {
				process := fmt.Sprintf("%s (process %d)", p.name, pid)
				s.heaps[process] = append(s.heaps[process], sample{time.Now(), heap})
			}
		}
	}
}

// thirds returns the lower quartiles of the first and the last third of the time; false if the process did not live through all of it.
func thirds(all []sample, from, to time.Time) (first, last float64, ok bool) {
	third := to.Sub(from) / 3
	var early, late []float64
	for _, x := range all {
		switch {
		case x.at.Before(from) || x.at.After(to):
		case x.at.Before(from.Add(third)):
			early = append(early, x.heap)
		case x.at.After(to.Add(-third)):
			late = append(late, x.heap)
		}
	}
	if len(early) == 0 || len(late) == 0 {
		return 0, 0, false
	}
	slices.Sort(early)
	slices.Sort(late)
	return early[len(early)/4], late[len(late)/4], true
}

// judgeMemory prints how the schedulers' memory developed and, if the run was long enough, reports growth.
func (s *soak) judgeMemory() {
	if s.calm.IsZero() || s.stopped.IsZero() {
		s.print("memory: not judged, because the run ended before")
		return
	}
	judged, lived := s.config.For >= judgedFrom, false
	from := s.calm.Add(memoryWarmup)
	if !judged { // print what there is
		from = s.calm.Add(s.stopped.Sub(s.calm) / 3)
	}
	for _, process := range slices.Sorted(maps.Keys(s.heaps)) {
		first, last, ok := thirds(s.heaps[process], from, s.stopped)
		if !ok {
			continue
		}
		lived = true
		line := fmt.Sprintf("%s: heap %.1f to %.1f MB (%+.1f %%), over %v",
			process, first/1e6, last/1e6, 100*(last/first-1), s.stopped.Sub(from).Round(time.Second))
		s.print("memory: %s", line)
		if judged && last/first-1 > memoryTolerance {
			s.book.add(about(memoryGrew, "by more than %.0f %%: %s", 100*memoryTolerance, line))
		}
	}
	switch {
	case !judged:
		s.print("memory: not judged in a run of less than %v", judgedFrom)
	case !lived:
		s.print("memory: not judged, because no scheduler lived through the part without kills")
	}
}

func (s *soak) print(format string, a ...any) { fmt.Fprintf(s.config.Out, format+"\n", a...) }
func (s *soak) say(format string, a ...any)   { s.print("soak: "+format, a...) }

func clock(d time.Duration) string {
	seconds := int(d.Seconds())
	return fmt.Sprintf("%d:%02d", seconds/60, seconds%60)
}

// showProgress prints a line now and then, and the violations since the line before.
func (s *soak) showProgress(ctx context.Context) {
	every := min(max(s.config.For/30, 5*time.Second), time.Minute)
	shown := 0
	for {
		if pause(ctx, every); ctx.Err() != nil {
			return
		}
		c := s.book.census()
		s.say("%s  %-16s %7d created  %7d bound  %5d exist  %4d wait  %4d kills  %d violations",
			clock(time.Since(s.started)), s.part.Load(), c.created, c.bound, c.live, c.waiting, s.kills(), len(c.violations))
		for _, v := range c.violations[shown:] {
			s.say("%v", v)
		}
		shown = len(c.violations)
	}
}

// writeCount prints the count: the pods, the faults, the memory, the number of violations of each kind, and each violation with its pods.
func (s *soak) writeCount() {
	t := s.book.census()
	line := fmt.Sprintf("\n%d pods created, %d bound, %d deleted by the soak", t.created, t.bound, t.deleted)
	for _, reason := range slices.Sorted(maps.Keys(t.evicted)) {
		line += fmt.Sprintf(", %d evicted (%s)", t.evicted[reason], reason)
	}
	s.print("%s; %d were unschedulable at some time", line, t.unschedulable)
	s.print("%d claims allocated", t.allocated)
	if t.forgotten > 0 {
		s.print("%d pods whose status lacks one of their claims: the controller manager's fault, kubernetes#138407", t.forgotten)
	}
	if len(t.collisions) > 0 {
		line = "two schedulers placed pods at the same time, which the API server does not prevent:"
		for _, kind := range slices.Sorted(maps.Keys(t.collisions)) {
			line += fmt.Sprintf(" %s %d times", kind, t.collisions[kind])
		}
		s.print("%s", line)
	}
	s.print("%d states of pods read from etcd in %s", t.states, clock(time.Since(s.started)))
	for _, f := range s.faults {
		if f.count.Load() == 0 {
			continue
		}
		line = fmt.Sprintf("%-22s %5d times", f.name, f.count.Load())
		if slices.Sort(f.after); len(f.after) > 0 {
			line += fmt.Sprintf(", pods are bound again after %.1f s (median), %.1f s at most",
				f.after[len(f.after)/2].Seconds(), f.after[len(f.after)-1].Seconds())
		}
		s.print("%s", line)
	}
	for _, line := range s.lines {
		s.print("%s", line)
	}
	s.judgeMemory()
	all := s.book.census().violations
	count := map[string]int{}
	for _, v := range all {
		count[v.kind]++
	}
	for _, kind := range violationKinds {
		s.print("%-18s %d", kind, count[kind])
	}
	for _, v := range all {
		s.print("%v", v)
	}
}

// verdict returns an error if there are violations.
func (s *soak) verdict() error {
	all := s.book.census().violations
	if len(all) == 0 {
		return nil
	}
	return exit.New(exit.Gate, fmt.Errorf("%d violations with seed %d", len(all), s.config.Seed),
		"the pods are listed above; the logs are in the folder that is named last")
}
