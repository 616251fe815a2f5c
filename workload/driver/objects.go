package driver

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/pager"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/kube"
	"gnnsched/internal/exit"
	"gnnsched/internal/table"
	"gnnsched/workload"
	"gnnsched/workload/record"
	"gnnsched/workload/record/play"
	"gnnsched/workload/usage"
)

// create creates a Deployment, or its pods with Bare. The end of ctx does not interrupt it, so that the record agrees with the cluster; its
// own time limit is short. here is false for a pod of a record that is left out.
func (r *runner) create(ctx context.Context, d workload.Deployment) (here bool, err error) {
	fill := len(r.sum.Fills) + 1
	switch {
	case r.stage != nil:
		return r.stage.create(ctx, d)
	case r.Bare:
		if err := r.createPods(ctx, d, fill); err != nil {
			return false, err
		}
	default:
		if err := create(ctx, r.Client.AppsV1().Deployments(r.Namespace), r.deployment(d, fill)); err != nil {
			return false, fmt.Errorf("create deployment %s: %w", d.Name, err)
		}
	}
	r.Log.Debug().Str("deployment", d.Name).Int("replicas", d.Replicas).Str("shape", d.Shape.Name).Msg("deployed")
	return true, nil
}

// createPods creates the pods of a Deployment without the Deployment itself, as Run does with Bare. It needs Client, Namespace,
// SchedulerName, RunID and Image. fill counts from 1.
func (c *Config) createPods(ctx context.Context, d workload.Deployment, fill int) error {
	for _, p := range c.pods(d, fill) {
		if err := create(ctx, c.Client.CoreV1().Pods(c.Namespace), p); err != nil {
			return fmt.Errorf("create pod %s: %w", p.Name, err)
		}
	}
	return nil
}

// create creates an object, and tries again after transient errors.
func create[T any](ctx context.Context, in interface {
	Create(context.Context, T, metav1.CreateOptions) (T, error)
}, object T) error {
	return withRetry(ctx, func(call context.Context) error {
		_, err := in.Create(call, object, metav1.CreateOptions{})
		return err
	})
}

// each calls f with the objects of a list, which it asks for page by page.
func each[L, T runtime.Object](
	ctx context.Context, list func(context.Context, metav1.ListOptions) (L, error), o metav1.ListOptions, f func(T),
) error {
	return pager.New(func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return list(ctx, o) }).
		EachListItem(ctx, o, func(x runtime.Object) error { f(x.(T)); return nil })
}

// withRetry calls ask, and again after transient errors. From the second call on, an AlreadyExists error counts as success.
func withRetry(ctx context.Context, ask func(context.Context) error) error {
	call, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	backoff := wait.Backoff{Steps: 5, Duration: 100 * time.Millisecond, Factor: 2, Jitter: 0.1}
	tries := 0
	return retry.OnError(backoff, func(err error) bool { return ctx.Err() == nil && temporary(err) }, func() error {
		err := ask(call)
		if tries++; apierrors.IsAlreadyExists(err) && tries > 1 {
			return nil // an earlier try succeeded, but its answer was lost
		}
		return err
	})
}

// temporary reports whether a request may succeed if it is repeated.
func temporary(err error) bool {
	// An API server refuses pods of a new class until its cache has the class.
	unknownClass := apierrors.IsForbidden(err) && strings.Contains(err.Error(), "no PriorityClass with name")
	return unknownClass || apierrors.IsTooManyRequests(err) || apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err) ||
		apierrors.IsInternalError(err) ||
		apierrors.IsServiceUnavailable(err) || utilnet.IsConnectionRefused(err) || utilnet.IsConnectionReset(err) ||
		utilnet.IsHTTP2ConnectionLost(err)
}

// remove deletes a Deployment, or its pods with Bare. It returns the number of pods that still existed.
func (r *runner) remove(ctx context.Context, d workload.Deployment) (removed int, err error) {
	if !r.Bare {
		o := metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationBackground)}
		err := r.Client.AppsV1().Deployments(r.Namespace).Delete(ctx, d.Name, o)
		if apierrors.IsNotFound(err) {
			return 0, nil
		}
		if err != nil {
			return 0, fmt.Errorf("delete deployment %s: %w", d.Name, err)
		}
		return d.Replicas, nil
	}
	namespace := r.Namespace
	if r.stage != nil {
		namespace = r.stage.space(r.replay.Parts[d.Name].Row.Namespace)
	}
	for i := range d.Replicas {
		err := r.Client.CoreV1().Pods(namespace).Delete(ctx, podName(d, i), metav1.DeleteOptions{})
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return removed, fmt.Errorf("delete pod %s: %w", podName(d, i), err)
		}
		removed++
	}
	return removed, nil
}

// labels returns the labels of every object of the run.
func (c *Config) labels() map[string]string {
	return map[string]string{workload.LabelManagedBy: workload.ManagedBy, workload.LabelRun: c.RunID}
}

// deployment returns the Kubernetes object of a Deployment. fill counts from 1.
func (c *Config) deployment(d workload.Deployment, fill int) *appsv1.Deployment {
	all := c.labels()
	all[workload.LabelName] = d.Name
	all[workload.LabelFill] = strconv.Itoa(fill)
	if d.Shape.Name != "" {
		all[workload.LabelShape] = d.Shape.Name
	}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: d.Name, Namespace: c.Namespace, Labels: all},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To(int32(d.Replicas)),
			// The name alone could also match foreign pods.
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{workload.LabelName: d.Name, workload.LabelRun: c.RunID}},
			Template: c.template(d, all),
		},
	}
}

// pods returns the pods of a Deployment that is not created itself. A single pod has the Deployment's name; several have a number after it.
func (c *Config) pods(d workload.Deployment, fill int) []*corev1.Pod {
	out := make([]*corev1.Pod, d.Replicas)
	template := c.template(d, c.deployment(d, fill).Labels)
	for i := range out {
		out[i] = &corev1.Pod{ObjectMeta: *template.ObjectMeta.DeepCopy(), Spec: *template.Spec.DeepCopy()}
		out[i].Name, out[i].Namespace = podName(d, i), c.Namespace
	}
	return out
}

func podName(d workload.Deployment, i int) string {
	if d.Replicas == 1 {
		return d.Name
	}
	return d.Name + "-" + strconv.Itoa(i)
}

// template returns the template of a Deployment's pods. run has the labels that every pod gets.
func (c *Config) template(d workload.Deployment, run map[string]string) corev1.PodTemplateSpec {
	s := d.Shape
	labels := maps.Clone(run)
	maps.Copy(labels, s.Labels)
	limits := s.Limits
	limits.GPU, limits.GPUMilli = s.Requests.GPU, s.Requests.GPUMilli // Kubernetes requires equal ones
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: annotations(s)},
		Spec: corev1.PodSpec{
			SchedulerName:                c.SchedulerName,
			NodeSelector:                 s.NodeSelector,
			Affinity:                     kube.Affinity(s.NodeAffinity),
			Tolerations:                  kube.Tolerations(workload.Tolerations([]workload.Shape{s})),
			AutomountServiceAccountToken: ptr.To(false), // the pods never call the API server
			EnableServiceLinks:           ptr.To(false),
			Containers: []corev1.Container{{
				Name: "app", Image: c.Image,
				Resources: corev1.ResourceRequirements{Requests: kube.NonzeroResourceList(s.Requests), Limits: kube.NonzeroResourceList(limits)},
			}},
		},
	}
}

// annotations returns the annotations of a shape's pods: their GPUs, and their usage for simulated nodes.
func annotations(s workload.Shape) map[string]string {
	out := kube.GPUAnnotations(s.Requests, s.GPUModels)
	if s.Usage == nil {
		return out
	}
	if out == nil {
		out = map[string]string{}
	}
	out[usage.Annotation], _ = usage.FormatAnnotation(s.Usage) // Config.Validate has checked that it can be
	return out
}

// createNamespace creates the namespace with the run's labels if it is missing. An existing namespace stays as it is, because it may be
// foreign.
func (c *Config) createNamespace(ctx context.Context) (created bool, err error) {
	n, err := c.Client.CoreV1().Namespaces().Get(ctx, c.Namespace, metav1.GetOptions{})
	switch {
	case err == nil && n.Status.Phase == corev1.NamespaceTerminating:
		return false, exit.New(exit.Usage, fmt.Errorf("namespace %s is being deleted", c.Namespace),
			"wait until it is gone, or choose another one with --namespace")
	case err == nil:
		return false, nil
	case !apierrors.IsNotFound(err):
		return false, fmt.Errorf("look for namespace %s: %w", c.Namespace, err)
	}
	n = &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: c.Namespace, Labels: c.labels()}}
	_, err = c.Client.CoreV1().Namespaces().Create(ctx, n, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return false, nil // created by others in the meantime
	}
	if err != nil {
		return false, fmt.Errorf("create namespace %s: %w", c.Namespace, err)
	}
	return true, nil
}

// checkNames returns an error if a Deployment of the namespace has a name of the plan, at which
// the run would stop halfway, or the run's id, in which case a reset would delete it.
func (c *Config) checkNames(ctx context.Context) error {
	existing, err := c.Client.AppsV1().Deployments(c.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list the Deployments in namespace %s: %w", c.Namespace, err)
	}
	owner := map[string]string{}
	for _, d := range existing.Items {
		owner[d.Name] = d.Labels[workload.LabelRun]
	}
	for name, run := range owner {
		if run == c.RunID {
			return exit.New(exit.Usage, fmt.Errorf("run id %s is in use: it is on Deployment %s in namespace %s", run, name, c.Namespace),
				"remove it with `cleancluster --run "+run+"`, or choose another id")
		}
	}
	for _, s := range c.Plan.Steps {
		if run, taken := owner[s.Deployment.Name]; taken && s.Action == workload.Add {
			err := fmt.Errorf("namespace %s already has a Deployment %s", c.Namespace, s.Deployment.Name)
			if run != "" {
				return exit.New(exit.Usage, fmt.Errorf("%w, of run %s", err, run),
					"remove it with `cleancluster --run "+run+"`, or choose another --seed or --namespace")
			}
			return exit.New(exit.Usage, err, "choose another --seed or --namespace")
		}
	}
	return nil
}

// GPUSummary is the GPU part of a fill's outcome. Amounts are in thousandths of a device.
type GPUSummary struct {
	Capacity  int64 `json:"capacity"`  // of the schedulable nodes
	Asked     int64 `json:"asked"`     // requested by the pods that were not deleted
	Allocated int64 `json:"allocated"` // requested by the pods with a node
	// AllocatedAtFull is Allocated at the first arrival with which Asked reached Capacity,
	// counting only pods that had arrived by then. It is 0 if Asked never reached Capacity, or
	// if pods were deleted.
	AllocatedAtFull int64 `json:"allocatedAtFull,omitempty"`

	UnscheduledCPU   int `json:"unscheduledCPU"`   // pods without a node that request no GPU
	UnscheduledShare int `json:"unscheduledShare"` // pods without a node that request a share of one
	UnscheduledWhole int `json:"unscheduledWhole"` // pods without a node that request whole ones
}

// Allocation returns the allocated fraction of the capacity.
func (g GPUSummary) Allocation() float64 { return cluster.Fraction(g.Allocated, g.Capacity) }

// AllocationAtFull returns AllocatedAtFull as a fraction of the capacity.
func (g GPUSummary) AllocationAtFull() float64 {
	return cluster.Fraction(g.AllocatedAtFull, g.Capacity)
}

// Add adds the next Deployment to arrive. bound is the number of its pods that have a node.
func (s *GPUSummary) Add(d workload.Deployment, bound int) {
	each := d.Shape.Requests.TotalGPUMilli()
	s.Asked += each * int64(d.Replicas)
	s.Allocated += each * int64(bound)
	if s.AllocatedAtFull == 0 && s.Asked >= s.Capacity {
		s.AllocatedAtFull = s.Allocated
	}
	switch left := d.Replicas - bound; {
	case d.Shape.Requests.GPU > 0:
		s.UnscheduledWhole += left
	case d.Shape.Requests.GPUMilli > 0:
		s.UnscheduledShare += left
	default:
		s.UnscheduledCPU += left
	}
}

// gpuSummary sums up the fill. It returns nil if the cluster has no GPUs.
func (r *runner) gpuSummary() *GPUSummary {
	s := GPUSummary{Capacity: r.Capacity.Allocatable.TotalGPUMilli()}
	if s.Capacity == 0 {
		return nil
	}
	for _, d := range r.created {
		if d, ok := r.existing[d.Name]; ok {
			t, _ := r.pods.count(map[string]workload.Deployment{d.Name: d})
			s.Add(d, t.bound)
		}
	}
	if r.fill.Deleted+r.fill.Lost > 0 {
		s.AllocatedAtFull = 0
	}
	return &s
}

// priority holds the fields that a PriorityClass gives a pod.
type priority struct {
	value  int32
	policy corev1.PreemptionPolicy
}

// priorityOf returns the priority with which a pod of the record is played.
func (s *stage) priorityOf(p *record.Pod) priority {
	if !s.Simulated {
		return priority{p.Priority, corev1.PreemptNever}
	}
	return priority{p.Priority, corev1.PreemptionPolicy(cmp.Or(p.Preemption, string(corev1.PreemptLowerPriority)))}
}

// maxPriority is the highest priority that a class of a user can have.
const maxPriority = 1_000_000_000

// createClasses finds or creates a PriorityClass for each priority of the plan's pods, because an API server sets a pod's priority only
// from its class. It uses the cluster's own system classes on simulated clusters only: they preempt, and other software depends on their
// names.
func (s *stage) createClasses(ctx context.Context) error {
	wanted, high := map[priority]string{}, 0
	s.parts(func(_ string, p play.Part) { wanted[s.priorityOf(p.Row)] = p.Row.PriorityClass })
	list, err := s.Client.SchedulingV1().PriorityClasses().List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list the priority classes: %w", err)
	}
	there, byDefault := map[priority]string{}, priority{0, corev1.PreemptLowerPriority}
	for i := range list.Items {
		c := &list.Items[i]
		is := priority{c.Value, ptr.Deref(c.PreemptionPolicy, corev1.PreemptLowerPriority)}
		if c.GlobalDefault {
			byDefault = is
		}
		if s.Simulated && strings.HasPrefix(c.Name, "system-") {
			there[is] = c.Name
		}
	}
	there[byDefault] = "" // a pod without a class has it
	for _, want := range slices.SortedFunc(maps.Keys(wanted), func(a, b priority) int {
		return cmp.Or(cmp.Compare(a.value, b.value), cmp.Compare(a.policy, b.policy))
	}) {
		name, ok := there[want]
		if !ok {
			name = fmt.Sprintf("gnnsched-%s-%d", strings.Map(dns, strings.ToLower(s.RunID)), len(s.classes)+1)
			if want.value > maxPriority {
				high++
			}
			if err := s.createClass(ctx, name, want, wanted[want]); err != nil {
				return err
			}
		}
		s.classes[want] = name
	}
	if high > 0 {
		s.Log.Warn().Int("priorities", high).Msgf("priorities over %d that no class of the cluster has are played as %d",
			maxPriority, maxPriority)
	}
	return nil
}

func (s *stage) createClass(ctx context.Context, name string, p priority, was string) error {
	c := &schedulingv1.PriorityClass{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: s.labels()}, Value: min(p.value, maxPriority), PreemptionPolicy: &p.policy,
		Description: fmt.Sprintf("stands for %q of a record that runsim plays", was),
	}
	if err := create(ctx, s.Client.SchedulingV1().PriorityClasses(), c); err != nil {
		return fmt.Errorf("create priority class %s: %w", name, err)
	}
	return nil
}

// dns replaces what may not stand in a DNS label.
func dns(r rune) rune {
	if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
		return r
	}
	return '-'
}

// Report is a summary with the seed and the file that repeat the run.
type Report struct {
	Summary
	Seed *uint64 `json:"seed,omitempty"` // nil if no random numbers decided the plan
	CSV  string  `json:"csv,omitempty"`  // file with the deployed workload; empty for none
	// Ends are the flags that ended the fills of a random plan.
	Ends []string `json:"ends,omitempty"`
}

// ReportFormats are the output formats of [Report.Write].
var ReportFormats = []string{"table", "json"}

// Write writes the report in one of ReportFormats.
func (s Report) Write(w io.Writer, format string) error {
	if format == "json" {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(s)
	}
	head := fmt.Sprintf("Run %s: %d fill(s) for scheduler %s in namespace %s, ", s.RunID, len(s.Fills), s.Scheduler, s.Namespace)
	if s.Seed != nil {
		head += fmt.Sprintf("seed %d, ", *s.Seed)
	}
	fmt.Fprintf(w, "%s%s\n\n", head, short(s.Elapsed))
	if err := s.writeFills(w); err != nil {
		return err
	}
	if len(s.Ends) > 0 {
		fmt.Fprintf(w, "\nwhat ends a fill: %s\n", strings.Join(slices.Compact(slices.Clone(s.Ends)), ", "))
	}
	for i, f := range s.Fills {
		s.writeProblems(w, i+1, f)
	}
	if s.CSV != "" {
		fmt.Fprintf(w, "\ndeployed workload: %s\n", s.CSV)
	}
	return nil
}

// writeProblems writes which pods of a fill are pending or missing, and how full the GPUs are.
func (s Report) writeProblems(w io.Writer, fill int, f FillSummary) {
	s.writeReasons(w, fmt.Sprintf("pending in fill %d", fill), f.Reasons, f.Placed)
	s.writeReasons(w, fmt.Sprintf("left without ever having a node in fill %d", fill), f.LeftUnplaced, f.Placed)
	s.writeReasons(w, fmt.Sprintf("refused by the API server in fill %d", fill), f.Refused, f.Placed)
	if n := f.Lost + f.Replaced; n > 0 {
		fmt.Fprintf(w,
			"\ndeleted by others in fill %d, such as by preemption: %d pod(s), of which %d came again, as their owners would create them",
			fill, n, f.Replaced)
	}
	if g := f.GPU; g != nil && g.Asked > 0 {
		fmt.Fprintf(w, "\nGPUs in fill %d: %s\n", fill, gpuLine(*g))
	}
	if missing := f.Pods - f.Created; missing > 0 {
		why := "the cluster's controllers have not created"
		if s.Bare {
			why = "others are deleting"
		}
		fmt.Fprintf(w, "\nmissing in fill %d: %d pod(s) that %s", fill, missing, why)
	}
	if len(f.Reasons)+len(f.LeftUnplaced)+len(f.Refused)+f.Lost+f.Replaced > 0 || f.Pods > f.Created {
		fmt.Fprintln(w)
	}
}

// writeReasons writes a line for each of the most frequent reasons. placed is the number of pods that had
// a node.
func (s Report) writeReasons(w io.Writer, what string, reasons []Reason, placed int) {
	shown, more := frequent(reasons)
	for _, r := range shown {
		why := r.Message
		if why == "" {
			why = "scheduler " + s.Scheduler + " has not looked at them"
			if placed == 0 {
				why += "; is it running?"
			}
		}
		fmt.Fprintf(w, "\n%s: %d pod(s): %s", what, r.Pods, why)
	}
	if more.Pods > 0 {
		fmt.Fprintf(w, "\n%s: %d pod(s): %s", what, more.Pods, more.Message)
	}
}

// reasonsShown is the number of reasons with a line of their own. On a full cluster with nodes and pods of many kinds, almost every pod has
// a different one.
const reasonsShown = 10

// frequent returns the most frequent reasons, and the sum of the others, which has no pods if there are no others.
func frequent(all []Reason) (shown []Reason, more Reason) {
	if len(all) <= reasonsShown {
		return all, more
	}
	for _, r := range all[reasonsShown:] {
		more.Pods += r.Pods
	}
	more.Message = fmt.Sprintf("%d other reasons; -o json has them", len(all)-reasonsShown)
	return all[:reasonsShown], more
}

// gpuLine describes the allocation of the GPUs: "95.1% of 6212 allocated, 130.0% asked for; without a node: 3 pods without GPU, 90 with a
// share of one, 20 with whole ones".
func gpuLine(g GPUSummary) string {
	text := fmt.Sprintf("%.2f%% of %d allocated, %.1f%% asked for", 100*g.Allocation(),
		g.Capacity/cluster.DeviceMilli, 100*cluster.Fraction(g.Asked, g.Capacity))
	if g.AllocatedAtFull > 0 {
		text += fmt.Sprintf(" (%.2f%% of what came until 100%% were)", 100*g.AllocationAtFull())
	}
	return text + fmt.Sprintf("; without a node: %d pods without GPU, %d with a share of one, %d with whole ones",
		g.UnscheduledCPU, g.UnscheduledShare, g.UnscheduledWhole)
}

// writeFills writes a row for each fill, and their sum.
func (s Report) writeFills(w io.Writer) error {
	counts, head := FillSummary.countDeployments, []string{"DEPLOYMENTS", "PODS", "CREATED", "BOUND", "PENDING"}
	if s.Bare {
		counts, head = FillSummary.countPods, []string{"PODS", "PLACED", "UNPLACED", "LEFT"}
	}
	t := table.Of(slices.Concat([]string{"FILL"}, head, []string{"CPU-LOAD", "MEM-LOAD", "POD-LOAD", "TIME", "PODS/S"})...)
	percent := func(share float64) string { return fmt.Sprintf("%.1f%%", 100*share) }
	var sum FillSummary
	for i, f := range s.Fills {
		l := f.Load
		t.Add(slices.Concat([]any{i + 1}, counts(f), []any{percent(l.CPU), percent(l.Memory), percent(l.Pods)}, f.pace())...)
		sum.Deployments += f.Deployments
		sum.Pods += f.Pods
		sum.Created += f.Created
		sum.Bound += f.Bound
		sum.Pending += f.Pending
		sum.Arrived += f.Arrived
		sum.Placed += f.Placed
		sum.Left += f.Left
		sum.Elapsed += f.Elapsed
		sum.Binding += f.Binding
	}
	if len(s.Fills) > 1 {
		t.Add(slices.Concat([]any{"all"}, counts(sum), []any{"", "", ""}, sum.pace())...)
	}
	return t.Columns(w)
}

// countDeployments returns the cells of a fill with Deployments, whose pods are those at its end.
func (f FillSummary) countDeployments() []any {
	return []any{f.Deployments, f.Pods, f.Created, f.Bound, f.Pending}
}

// countPods returns the cells of a fill without Deployments, with the pods from its beginning to its end.
func (f FillSummary) countPods() []any {
	return []any{f.Arrived, f.Placed, f.Arrived - f.Placed, f.Left}
}

// pace returns the duration of a fill, and PODS/S: the number of pods that got a node, divided by the time from the fill's first Deployment
// to its last binding.
func (f FillSummary) pace() []any {
	rate := "-"
	if f.Binding > 0 {
		rate = fmt.Sprintf("%.1f", float64(f.Placed)/f.Binding.Seconds())
	}
	return []any{short(f.Elapsed), rate}
}

// short writes a duration to a tenth of a second.
func short(d time.Duration) string { return d.Round(100 * time.Millisecond).String() }
