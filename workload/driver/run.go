package driver

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"

	"gnnsched/internal/cluster"
	"gnnsched/internal/watched"
	"gnnsched/workload"
	"gnnsched/workload/cleanup"
)

// Run applies the plan and returns the outcome. If ctx ends or a step fails, the summary covers
// the steps until then. Pods that stay pending are not an error.
func Run(ctx context.Context, c Config) (Summary, error) {
	if err := c.complete(); err != nil {
		return Summary{}, err
	}
	r := &runner{
		Config: c, sum: Summary{RunID: c.RunID, Scheduler: c.SchedulerName, Bare: c.Bare, Namespace: c.Namespace}, fills: c.Plan.Fills(),
		start: c.Clock.Now(),
	}
	err := r.prepare(ctx)
	if err != nil {
		return r.sum, err
	}
	if r.pods, err = watchPods(ctx, &c); err != nil {
		return r.sum, err
	}
	defer r.pods.stop()
	err = r.run(ctx)
	r.sum.Elapsed = c.Clock.Since(r.start)
	return r.sum, err
}

// prepare creates what must be there before the first pod.
func (r *runner) prepare(ctx context.Context) (err error) {
	if r.replay != nil {
		r.sum.Namespace, r.sum.NamespaceCreated = r.Namespace+"-*", true
		r.stage, err = r.prepareStage(ctx)
		return err
	}
	if r.sum.NamespaceCreated, err = r.createNamespace(ctx); err != nil {
		return err
	}
	return r.checkNames(ctx)
}

// runner is the state of a run under way.
type runner struct {
	Config
	stage *stage // nil unless the pods come from a record
	pods  *podWatch
	fills []workload.Fill // of the plan
	sum   Summary         // over the fills that have ended
	start time.Time

	// The current fill.
	inFill    bool // false between end and begin
	fill      FillSummary
	fillStart time.Time
	created   []workload.Deployment          // in order
	existing  map[string]workload.Deployment // created and not deleted, without the pods that are lost
	left      map[string]workload.Deployment // created and deleted, or lost
	requested cluster.Resources              // by the existing ones
	bindings  int                            // before the fill

	podsBefore int           // planned pods of the fills that have ended
	arrived    int           // pods created in all fills
	gone       int           // pods that left in all fills
	next       time.Duration // when the next step is due, since start; used if Speed is not 0
	reported   time.Time     // of the last call of Progress
}

func (r *runner) run(ctx context.Context) error {
	r.begin()
	defer func() {
		if r.inFill {
			r.end()
		}
	}()
	for _, s := range r.Plan.Steps {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := r.waitUntil(ctx, s); err != nil {
			return err
		}
		if err := r.noteGone(ctx); err != nil {
			return err
		}
		if err := r.step(ctx, s); err != nil {
			return err
		}
		if err := r.Record(s); err != nil {
			return err
		}
		if s.Action == workload.Reset {
			continue
		}
		r.report(Deploying, 0, false)
		if err := r.pause(ctx, r.Interval); err != nil {
			return err
		}
	}
	return r.settle(ctx)
}

// begin starts a fill.
func (r *runner) begin() {
	r.inFill = true
	r.pods.forgetGone()
	r.fill = FillSummary{}
	r.fillStart = r.Clock.Now()
	r.created = nil
	r.existing, r.left = map[string]workload.Deployment{}, map[string]workload.Deployment{}
	r.bindings = r.pods.everPlaced()
	r.requested = cluster.Resources{}
}

// end completes the fill's summary.
func (r *runner) end() {
	t, _ := r.pods.count(r.existing)
	r.fill.Created, r.fill.Bound = t.created, t.bound
	r.fill.Pending = t.created - t.bound
	r.fill.Reasons = reasonsOf(r.pods.of(r.existing, (*pod).pending))
	r.fill.Placed = r.pods.everPlaced() - r.bindings
	if r.stage != nil {
		r.fill.Refused = sortedReasons(r.stage.refused)
	}
	r.fill.LeftUnplaced = reasonsOf(r.pods.of(r.left, (*pod).leftUnplaced))
	r.fill.Load = r.load()
	r.fill.GPU = r.gpuSummary()
	r.fill.Elapsed = r.Clock.Since(r.fillStart)
	r.podsBefore += r.fills[len(r.sum.Fills)].Pods
	r.sum.Fills = append(r.sum.Fills, r.fill)
	r.inFill = false
}

func (r *runner) step(ctx context.Context, s workload.Step) error {
	d := s.Deployment
	switch s.Action {
	case workload.Add:
		if here, err := r.create(ctx, d); err != nil || !here {
			return err
		}
		r.existing[d.Name] = d
		r.created = append(r.created, d)
		r.requested = r.requested.Plus(d.Requests())
		r.fill.Deployments++
		r.fill.Pods += d.Replicas
		r.fill.Arrived += d.Replicas
		r.arrived += d.Replicas
	case workload.Delete:
		return r.leave(ctx, d)
	case workload.Reset:
		return r.reset(ctx)
	}
	return nil
}

// reset ends the fill, deletes everything that it created and begins the next fill.
func (r *runner) reset(ctx context.Context) error {
	if err := r.settle(ctx); err != nil {
		return err
	}
	r.end()
	r.Log.Info().Int("fill", len(r.sum.Fills)).Int("bound", r.fill.Bound).Int("pending", r.fill.Pending).
		Msg("reset: deleting everything that was deployed")
	err := r.Cleaner.Remove(ctx, cleanup.Scope{Run: r.RunID, Namespace: r.Namespace}, func(left cleanup.Counts) {
		r.report(Resetting, left.Total(), true)
	})
	if err != nil {
		return fmt.Errorf("reset the cluster: %w", err)
	}
	r.begin()
	return nil
}

// waitUntil waits for the time of the step.
func (r *runner) waitUntil(ctx context.Context, s workload.Step) error {
	if r.Speed == 0 {
		return nil
	}
	r.next = r.due(s)
	return r.pause(ctx, r.next-r.Clock.Since(r.start))
}

// due returns the time of a step, since the start of the run.
func (r *runner) due(s workload.Step) time.Duration {
	return time.Duration(s.At / r.Speed * float64(time.Second))
}

// pause waits and reports progress in the meantime.
func (r *runner) pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	t := r.Clock.NewTimer(d)
	defer t.Stop()
	tick := r.Clock.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-t.C():
			return nil
		case <-r.pods.changed:
			r.noteBinding()
			if err := r.noteGone(ctx); err != nil {
				return err
			}
			r.report(Deploying, 0, false)
		case <-tick.C():
			r.report(Deploying, 0, true)
		}
	}
}

// settle waits until every pod of the fill is bound and every pod that the plan deleted is gone, or
// until no pod was created or bound for the time Settle.
func (r *runner) settle(ctx context.Context) error {
	stalled := r.Clock.NewTimer(r.Settle)
	defer func() { stalled.Stop() }()
	tick := r.Clock.NewTicker(time.Second)
	defer tick.Stop()
	_, last := r.pods.count(r.existing)
	for {
		r.noteBinding()
		if err := r.noteGone(ctx); err != nil {
			return err
		}
		t, progress := r.pods.count(r.existing)
		going, _ := r.pods.count(r.left)
		if going.created == 0 && t.bound >= r.fill.Pods {
			r.report(Settling, 0, true)
			return nil
		}
		r.report(Settling, 0, false)
		if progress != last {
			last = progress
			stalled.Stop()
			stalled = r.Clock.NewTimer(r.Settle)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-r.pods.changed:
		case <-tick.C():
		case <-stalled.C():
			r.Log.Warn().Int("fill", len(r.sum.Fills)+1).Int("pending", r.fill.Pods-t.bound).Dur("waited", r.Settle).
				Msg("pods stay pending; continuing without them")
			return nil
		}
	}
}

// podWatch keeps the state of the run's pods on the cluster.
type podWatch struct {
	changed chan struct{} // has an item after a change, until it is received
	stop    func()
	bare    bool // a pod has its Deployment's name, because its labels come from a record

	mu      sync.Mutex
	pods    map[string]*pod   // with those that are gone, by identity
	byName  map[string]*tally // by Deployment
	gone    []pod             // pods that the API server has deleted, until they are taken
	placed  int               // pods that ever had a node
	changes int               // of existing pods, and of bound pods
}

// pod is the state of one pod.
type pod struct {
	namespace, name, deployment string
	here                        bool   // it exists and is not being deleted
	bound                       bool   // to a node, now
	reason                      string // the scheduler's last reason why it is pending; empty if there is none
	refused                     bool   // the scheduler tried it and found no node
	placed                      bool   // it has had a node
}

// tally counts the pods of one or several Deployments, without pods that are being deleted.
type tally struct{ created, bound int }

func newPodWatch(bare bool) *podWatch {
	return &podWatch{
		changed: make(chan struct{}, 1), bare: bare, pods: map[string]*pod{}, byName: map[string]*tally{},
	}
}

// watchPods starts the watch and waits until it has seen every pod of the run.
func watchPods(ctx context.Context, c *Config) (w *podWatch, err error) {
	w = newPodWatch(c.replay != nil)
	namespace := c.Namespace
	if c.replay != nil { // it has several
		namespace = metav1.NamespaceAll
	}
	ofRun := func(o *metav1.ListOptions) { o.LabelSelector = workload.LabelRun + "=" + c.RunID }
	w.stop, err = watched.Pods(ctx, c.Client, func(was, is *corev1.Pod, _ bool) {
		if is == nil {
			w.drop(was)
			w.vanish(was)
		} else {
			w.set(is)
		}
	}, informers.WithNamespace(namespace), informers.WithTweakListOptions(ofRun), informers.WithTransform(stripPod))
	return w, err
}

// stripPod keeps the fields that podWatch reads, to save memory with many thousands of pods.
func stripPod(o any) (any, error) {
	p, ok := o.(*corev1.Pod)
	if !ok {
		return o, nil
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: p.Name, Namespace: p.Namespace, UID: p.UID, ResourceVersion: p.ResourceVersion, Labels: p.Labels,
			DeletionTimestamp: p.DeletionTimestamp,
		},
		Spec:   corev1.PodSpec{NodeName: p.Spec.NodeName},
		Status: corev1.PodStatus{Conditions: p.Status.Conditions},
	}, nil
}

// identity returns what identifies a pod that counts once, and its Deployment. A pod of a record may be created again under its name.
func (w *podWatch) identity(p *corev1.Pod) (id, deployment string) {
	if w.bare {
		return p.Name, p.Name
	}
	return string(p.UID), p.Labels[workload.LabelName]
}

func (w *podWatch) set(p *corev1.Pod) {
	if p.DeletionTimestamp != nil {
		w.drop(p)
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	id, deployment := w.identity(p)
	x := w.pods[id]
	if x == nil {
		x = &pod{namespace: p.Namespace, name: p.Name, deployment: deployment}
		w.pods[id] = x
	}
	was := *x
	x.here, x.bound, x.reason, x.refused = true, p.Spec.NodeName != "", "", false
	for _, c := range p.Status.Conditions {
		if !x.bound && c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			x.reason, x.refused = c.Message, c.Reason == corev1.PodReasonUnschedulable
		}
	}
	if *x == was {
		return
	}
	t := w.byName[deployment]
	if t == nil {
		t = &tally{}
		w.byName[deployment] = t
	}
	if !was.here {
		t.created++
		w.changes++
	}
	if x.bound && !was.bound {
		t.bound++
		w.changes++
		w.place(x)
	}
	w.notify()
}

// place notes that a pod has a node.
func (w *podWatch) place(x *pod) {
	if !x.placed {
		x.placed = true
		w.placed++
	}
}

// drop notes that a pod is being deleted, whose last state is p.
func (w *podWatch) drop(p *corev1.Pod) {
	w.mu.Lock()
	defer w.mu.Unlock()
	id, _ := w.identity(p)
	x := w.pods[id]
	if x == nil || !x.here {
		return
	}
	w.changes++
	t := w.byName[x.deployment]
	t.created--
	if x.bound {
		t.bound--
	} else if p.Spec.NodeName != "" { // bound since the last event
		w.place(x)
	}
	x.here, x.bound = false, false
	if *t == (tally{}) {
		delete(w.byName, x.deployment)
	}
	w.notify()
}

// vanish notes a pod that the API server has deleted.
func (w *podWatch) vanish(p *corev1.Pod) {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, deployment := w.identity(p)
	w.gone = append(w.gone, pod{namespace: p.Namespace, name: p.Name, deployment: deployment})
	w.notify()
}

// takeGone returns the pods that the API server has deleted since the last call.
func (w *podWatch) takeGone() []pod {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := w.gone
	w.gone = nil
	return out
}

func (w *podWatch) notify() {
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

// count sums up the pods of the Deployments. progress grows whenever a pod is created, bound or deleted.
func (w *podWatch) count(of map[string]workload.Deployment) (t tally, progress int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for name := range of {
		if d := w.byName[name]; d != nil {
			t.created += d.created
			t.bound += d.bound
		}
	}
	return t, w.changes
}

// everPlaced returns the number of pods that ever had a node since the watch began.
func (w *podWatch) everPlaced() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.placed
}

// of returns the Deployments' pods, with those that are gone, for which is holds.
func (w *podWatch) of(deployments map[string]workload.Deployment, is func(*pod) bool) (out []pod) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, x := range w.pods {
		if _, ok := deployments[x.deployment]; ok && is(x) {
			out = append(out, *x)
		}
	}
	return out
}

// The states of pods that of finds.
func (x *pod) pending() bool      { return x.here && !x.bound }
func (x *pod) leftUnplaced() bool { return !x.here && !x.placed }

// forgetGone forgets the pods that are gone.
func (w *podWatch) forgetGone() {
	w.mu.Lock()
	defer w.mu.Unlock()
	maps.DeleteFunc(w.pods, func(_ string, x *pod) bool { return !x.here })
}

// noteGone looks for pods that others have deleted, such as a scheduler that preempted them. Pods of a record whose owner
// would create them again come again. All others are lost. Pods of Deployments are left to their controllers.
func (r *runner) noteGone(ctx context.Context) error {
	for _, p := range r.pods.takeGone() {
		d, planned := r.existing[p.deployment]
		if !r.Bare || !planned {
			continue
		}
		err := withRetry(ctx, func(call context.Context) error {
			_, err := r.Client.CoreV1().Pods(p.namespace).Get(call, p.name, metav1.GetOptions{})
			return err
		})
		if err == nil { // a later one under the same name
			continue
		}
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("look for pod %s: %w", p.name, err)
		}
		again := false
		if r.stage != nil {
			if again, err = r.stage.replace(ctx, d.Name); err != nil {
				return err
			}
		}
		if again {
			r.fill.Replaced++
		} else {
			r.lose(d, 1)
		}
	}
	return nil
}

// lose takes n pods of a Deployment out of the fill.
func (r *runner) lose(d workload.Deployment, n int) {
	r.take(d, n)
	r.fill.Lost += n
}

// leave deletes a Deployment because the plan does. Its missing pods are lost.
func (r *runner) leave(ctx context.Context, d workload.Deployment) error {
	before, here := r.existing[d.Name]
	if !here { // it was left out, or is lost
		return nil
	}
	removed, err := r.remove(ctx, d)
	if err != nil {
		return err
	}
	removed = min(removed, before.Replicas)
	if lost := before.Replicas - removed; lost > 0 {
		r.lose(before, lost)
	}
	if removed > 0 {
		r.take(r.existing[d.Name], removed)
		r.fill.Deleted++
		r.fill.Left += removed
	}
	return nil
}

// take removes n of the existing pods.
func (r *runner) take(d workload.Deployment, n int) {
	gone := d
	gone.Replicas = n
	r.requested = r.requested.Minus(gone.Requests())
	r.fill.Pods -= n
	r.gone += n
	if d.Replicas -= n; d.Replicas > 0 {
		r.existing[d.Name] = d
		return
	}
	delete(r.existing, d.Name)
	r.left[d.Name] = d
}

// replace creates a pod of the record again that others have deleted. It returns false if its owner would not, because it
// has none, or if the API server does not accept it.
func (s *stage) replace(ctx context.Context, name string) (again bool, err error) {
	part := s.replay.Parts[name]
	if part.Row.OwnerKind == "" {
		return false, nil
	}
	p := s.pod(name)
	if p.Spec.NodeName = ""; part.Row.Daemon && part.Node != "" {
		p.Spec.Affinity = onNode(p.Spec.Affinity, s.node(part.Node))
	}
	return s.submit(ctx, p)
}

// onNode restricts an affinity to a node, as the controller of DaemonSets does. The pod waits until the node has capacity for it.
func onNode(a *corev1.Affinity, node string) *corev1.Affinity {
	if a == nil {
		a = &corev1.Affinity{}
	}
	if a.NodeAffinity == nil {
		a.NodeAffinity = &corev1.NodeAffinity{}
	}
	terms := &a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	if *terms == nil {
		*terms = &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{}}}
	}
	for i := range (*terms).NodeSelectorTerms {
		t := &(*terms).NodeSelectorTerms[i]
		t.MatchFields = append(t.MatchFields, corev1.NodeSelectorRequirement{
			Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{node},
		})
	}
	return a
}
