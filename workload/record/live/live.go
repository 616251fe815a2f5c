package live

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/metrics/pkg/client/clientset/versioned"
	"sigs.k8s.io/yaml"

	"gnnsched/internal/cluster"
	"gnnsched/internal/each"
	"gnnsched/internal/exit"
	"gnnsched/internal/watched"
	"gnnsched/workload/record"
	"gnnsched/workload/record/history"
	"gnnsched/workload/record/observe"
)

// patience limits the time of all queries of one measurement.
const patience = 30 * time.Second

// Prometheus measures by the kubelets' series that a Prometheus server scrapes.
type Prometheus struct {
	Ask      history.Asker
	Now      func() time.Time
	Patience time.Duration // for all queries of one measurement; 0 for 30 seconds
}

// Trouble counts a Prometheus' missing answers.
type Trouble struct {
	Failed          int // measurements
	Invalid         int // values of pods and nodes that were negative or no finite numbers
	Unknown         int // values of pods and nodes that the cluster does not have
	NoPods, NoNodes int // measurements without a value of any pod or any node of the cluster
}

// measure implements Source. It waits until the nodes and pods of the cluster are known.
func (p Prometheus) measure(ctx context.Context, r *Recorder, stop func()) {
	select {
	case <-ctx.Done():
		return
	case <-r.listed:
	}
	try, cancel := context.WithTimeout(ctx, cmp.Or(p.Patience, patience))
	defer cancel()
	got, err := history.Measure(try, p.Ask, p.Now(), r.cfg.Follower.Present())
	if ctx.Err() != nil { // recording ends
		return
	}
	r.answered(prometheus, "ask", err, stop) //nolint:errcheck // it is counted
	if err != nil {
		r.count(Trouble{Failed: 1}, "")
		return
	}
	trouble := Trouble{Invalid: got.Invalid, Unknown: len(got.Unknown), NoPods: 1, NoNodes: 1}
	for _, s := range got.Samples {
		if s.Namespace == "" {
			trouble.NoNodes = 0
		} else {
			trouble.NoPods = 0
		}
		r.cfg.Sample(s)
	}
	unknown := ""
	for name := range got.Unknown {
		if unknown == "" || name < unknown {
			unknown = name
		}
	}
	r.count(trouble, unknown)
}

// count adds to the counts, and reports the first event of each kind. unknown names one object that the cluster does not have.
func (r *Recorder) count(t Trouble, unknown string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if t.Invalid > 0 && r.trouble.Invalid == 0 {
		r.cfg.Warn("Prometheus answers with usage that is negative or no finite number; the record will lack the usage of these pods and " +
			"nodes at these times")
	}
	if t.Unknown > 0 && r.trouble.Unknown == 0 {
		r.cfg.Warn(fmt.Sprintf("Prometheus has usage of the %s, which the cluster does not have: it has just ended, "+
			"or Prometheus scrapes another cluster; such usage is left out", unknown))
	}
	r.trouble.Failed += t.Failed
	r.trouble.Invalid += t.Invalid
	r.trouble.Unknown += t.Unknown
	r.trouble.NoPods += t.NoPods
	r.trouble.NoNodes += t.NoNodes
}

// Trouble returns what Prometheus did not give so far.
func (r *Recorder) Trouble() Trouble {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.trouble
}

// lacks lists what the record lacks because of it.
func (t Trouble) lacks() (out []string) {
	if t.Failed > 0 {
		out = append(out, fmt.Sprintf("usage at %d times, at which Prometheus did not answer", t.Failed))
	}
	if t.Invalid > 0 {
		out = append(out, fmt.Sprintf("%d values of usage that were negative or no finite numbers", t.Invalid))
	}
	if t.NoPods > 0 {
		out = append(out, fmt.Sprintf("usage of pods at %d times, at which Prometheus had none of the cluster's pods", t.NoPods))
	}
	if t.NoNodes > 0 {
		out = append(out, fmt.Sprintf("usage of nodes at %d times, at which Prometheus had none of the cluster's nodes", t.NoNodes))
	}
	return out
}

// Source measures what nodes and pods use: MetricsAPI or Prometheus.
type Source interface {
	// measure gives one set of samples to the recorder. stop ends measuring.
	measure(ctx context.Context, r *Recorder, stop func())
}

// measure takes samples until the context ends or the cluster refuses.
func (r *Recorder) measure(ctx context.Context) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	tick := time.NewTicker(r.cfg.Interval)
	defer tick.Stop()
	for {
		r.cfg.Usage.measure(ctx, r, stop)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// MetricsAPI measures by metrics.k8s.io.
func MetricsAPI(client versioned.Interface) Source { return &metricsAPI{client: client} }

type metricsAPI struct {
	client versioned.Interface
	newest times
}

// times holds the last times of measurements: the cluster may answer with the same sample twice.
type times map[[2]string]int64

// measure implements Source.
func (m *metricsAPI) measure(ctx context.Context, r *Recorder, stop func()) {
	next := make(times, len(m.newest))
	if m.nodes(ctx, r, stop, next) == nil {
		m.pods(ctx, r, stop, next) //nolint:errcheck // was said
	}
	m.newest = next
}

func (m *metricsAPI) nodes(ctx context.Context, r *Recorder, stop func(), next times) error {
	list, err := m.client.MetricsV1beta1().NodeMetricses().List(ctx, metav1.ListOptions{})
	if err := r.answered(metrics, "list", err, stop); err != nil {
		return err
	}
	for i := range list.Items {
		n := &list.Items[i]
		m.sample(r, record.Sample{Time: n.Timestamp.UnixMilli(), Name: n.Name}, []corev1.ResourceList{n.Usage}, next)
	}
	return nil
}

func (m *metricsAPI) pods(ctx context.Context, r *Recorder, stop func(), next times) error {
	list, err := m.client.MetricsV1beta1().PodMetricses(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err := r.answered(metrics, "list", err, stop); err != nil {
		return err
	}
	for i := range list.Items {
		p := &list.Items[i]
		var all []corev1.ResourceList
		for _, c := range p.Containers {
			all = append(all, c.Usage)
		}
		m.sample(r, record.Sample{Time: p.Timestamp.UnixMilli(), Namespace: p.Namespace, Name: p.Name}, all, next)
	}
	return nil
}

// sample adds up what was used, and gives it on unless it was given before.
func (m *metricsAPI) sample(r *Recorder, s record.Sample, used []corev1.ResourceList, next times) {
	k := [2]string{s.Namespace, s.Name}
	next[k] = s.Time
	if m.newest[k] == s.Time || s.Time <= 0 {
		return
	}
	for _, l := range used {
		s.MilliCPU += l.Cpu().MilliValue()
		s.Memory += l.Memory().Value()
	}
	s.MilliCPU, s.Memory = min(max(s.MilliCPU, 0), cluster.MaxMilliCPU), min(max(s.Memory, 0), cluster.MaxMemory)
	r.cfg.Sample(s)
}

// Config configures a recorder.
type Config struct {
	Client   kubernetes.Interface
	Follower *observe.Follower // receives the events
	Warn     func(string)      // called once with each thing that the record will lack

	Usage    Source              // nil: usage is not measured
	Interval time.Duration       // between two measurements
	Sample   func(record.Sample) // takes them
}

// Recorder watches a cluster.
type Recorder struct {
	cfg   Config
	mu    sync.Mutex
	had   map[string]bool // resources that could be read once
	down  map[string]bool // resources whose last request failed
	lacks []string
	fatal error
	stop  context.CancelFunc

	unlisted map[string]bool // node or pod kinds without a first list
	listed   chan struct{}   // is closed once it has both
	trouble  Trouble
}

// New returns a recorder.
func New(c Config) *Recorder {
	return &Recorder{cfg: c, had: map[string]bool{}, down: map[string]bool{},
		unlisted: map[string]bool{nodes.name: true, pods.name: true}, listed: make(chan struct{})}
}

// list notes that the follower has a list of nodes or pods.
func (r *Recorder) list(what target) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if delete(r.unlisted, what.name); len(r.unlisted) > 0 {
		return
	}
	select {
	case <-r.listed:
	default:
		close(r.listed)
	}
}

// Lacks lists the cluster's refusals and Prometheus' missing answers so far.
func (r *Recorder) Lacks() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Concat(r.lacks, r.trouble.lacks())
}

// Run watches until the context ends; the error is then nil. It ends before that, with an error of exit code 4, if the
// cluster does not let it read nodes or pods. While the cluster does not answer, it goes on trying.
func (r *Recorder) Run(ctx context.Context) error {
	ctx, r.stop = context.WithCancel(ctx)
	defer r.stop()
	f, c := r.cfg.Follower, r.cfg.Client
	var work sync.WaitGroup
	r.follow(ctx, &work, nodes, c.CoreV1().RESTClient(), follow(&corev1.Node{}, &corev1.NodeList{},
		func(n *corev1.Node, _ bool) { f.Node(n) }, func(n *corev1.Node) { f.NodeGone(n.Name) },
		func(all []*corev1.Node) { f.Nodes(all); r.list(nodes) }))
	r.follow(ctx, &work, pods, c.CoreV1().RESTClient(),
		follow(&corev1.Pod{}, &corev1.PodList{}, f.Pod, f.PodGone, func(all []*corev1.Pod) { f.Pods(all); r.list(pods) }))
	r.follow(ctx, &work, namespaces, c.CoreV1().RESTClient(),
		objects(f, record.KindNamespace, &corev1.Namespace{}, &corev1.NamespaceList{}, observe.Namespace))
	r.follow(ctx, &work, classes, c.SchedulingV1().RESTClient(),
		objects(f, record.KindPriorityClass, &schedulingv1.PriorityClass{}, &schedulingv1.PriorityClassList{}, observe.PriorityClass))
	r.follow(ctx, &work, budgets, c.PolicyV1().RESTClient(),
		objects(f, record.KindBudget, &policyv1.PodDisruptionBudget{}, &policyv1.PodDisruptionBudgetList{}, observe.Budget))
	r.followOwners(ctx, &work)
	if r.cfg.Usage != nil {
		work.Go(func() { r.measure(ctx) })
	}
	work.Wait()
	return r.fatal
}

// followOwners follows what pods belong to.
func (r *Recorder) followOwners(ctx context.Context, work *sync.WaitGroup) {
	f, c := r.cfg.Follower, r.cfg.Client
	apps, batch := c.AppsV1().RESTClient(), c.BatchV1().RESTClient()
	r.follow(ctx, work, deployments, apps,
		objects(f, record.KindDeployment, &appsv1.Deployment{}, &appsv1.DeploymentList{}, observe.Deployment))
	r.follow(ctx, work, replicaSets, apps,
		objects(f, record.KindReplicaSet, &appsv1.ReplicaSet{}, &appsv1.ReplicaSetList{}, observe.ReplicaSet))
	r.follow(ctx, work, statefulSets, apps,
		objects(f, record.KindStatefulSet, &appsv1.StatefulSet{}, &appsv1.StatefulSetList{}, observe.StatefulSet))
	r.follow(ctx, work, daemonSets, apps,
		objects(f, record.KindDaemonSet, &appsv1.DaemonSet{}, &appsv1.DaemonSetList{}, observe.DaemonSet))
	r.follow(ctx, work, jobs, batch, objects(f, record.KindJob, &batchv1.Job{}, &batchv1.JobList{}, observe.Job))
	r.follow(ctx, work, cronJobs, batch, objects(f, record.KindCronJob, &batchv1.CronJob{}, &batchv1.CronJobList{}, observe.CronJob))
	r.follow(ctx, work, autoscalers, c.AutoscalingV2().RESTClient(),
		objects(f, record.KindAutoscaler, &autoscalingv2.HorizontalPodAutoscaler{}, &autoscalingv2.HorizontalPodAutoscalerList{},
			observe.Autoscaler))
}

// kind describes how objects of one kind reach the follower.
type kind struct {
	object, list runtime.Object
	store        cache.ReflectorStore
}

func follow[T runtime.Object](object T, list runtime.Object, put func(T, bool), gone func(T), all func([]T)) kind {
	read := func(o any) (T, error) { return o.(T), nil }
	return kind{object, list, watched.Store[T]{Read: read, Put: func(o T) { put(o, true) }, Gone: gone, All: all}}
}

// objects follows a kind that the record has in the table objects.
func objects[T runtime.Object](f *observe.Follower, name string, object T, list runtime.Object, row func(T) record.Object) kind {
	return follow(object, list, func(o T, _ bool) { f.Object(row(o)) }, func(o T) { f.ObjectGone(row(o)) }, func(all []T) {
		rows := each.Map(all, row)
		f.Objects(name, rows)
	})
}

// follow starts to list and watch a resource.
func (r *Recorder) follow(ctx context.Context, work *sync.WaitGroup, what target, client cache.Getter, k kind) {
	ctx, stop := context.WithCancel(ctx)
	from := cache.NewListWatchFromClient(client, what.name, metav1.NamespaceAll, fields.Everything())
	lw := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			out, err := from.ListWithContextFunc(ctx, o)
			return out, r.answered(what, "list", err, stop)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			out, err := from.WatchFuncWithContext(ctx, o)
			return out, r.answered(what, "watch", err, stop)
		},
	}
	work.Go(func() {
		defer stop()
		cache.NewReflectorWithOptions(lw, k.object, k.store, cache.ReflectorOptions{Name: "record " + what.name}).RunWithContext(ctx)
	})
}

// answered takes the outcome of a request and returns its error. It reports the first refusal of a verb. A refusal ends the recording if
// the record needs the resource; otherwise it ends, by stop, the following of the resource.
func (r *Recorder) answered(what target, verb string, err error, stop func()) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	resource := schema.GroupResource{Group: what.group, Resource: what.name}.String()
	refused := apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err)
	absent := apierrors.IsNotFound(err)
	switch {
	case err == nil:
		if r.down[what.name] {
			r.cfg.Warn(fmt.Sprintf("%s can be read again", what.name))
		}
		r.down[what.name] = false
		r.had[verb+what.name] = true
	case errors.Is(err, context.Canceled):
	case refused && what.needed && !r.had[verb+what.name] && !r.had["watch"+what.name]:
		if r.fatal == nil {
			r.fatal = exit.New(exit.Kubeconfig, fmt.Errorf("the cluster does not let this user %s %s, which a record needs", verb, resource),
				"`gnnsched record --print-rbac` prints the rights that it needs; an administrator can apply and bind them")
		}
		r.stop()
	case (refused || absent) && !what.needed:
		text := "may not " + verb + " " + resource
		if absent {
			text = "the cluster has no " + resource
		}
		r.lacks = append(r.lacks, text)
		r.cfg.Warn(fmt.Sprintf("%s: the record will lack %s", text, what.loss))
		stop()
	case !r.down[what.name]:
		r.down[what.name] = true
		r.cfg.Warn(fmt.Sprintf("%s %s: %v; still trying", verb, what.name, err))
	}
	return err
}

// target is something that a recorder lists and watches.
type target struct {
	group, name string
	needed      bool   // a record needs it
	loss        string // what the record lacks without the right
}

var (
	nodes      = target{name: "nodes", needed: true}
	pods       = target{name: "pods", needed: true}
	namespaces = target{name: "namespaces", loss: "labels of namespaces, by which affinity may choose"}
	classes    = target{group: "scheduling.k8s.io", name: "priorityclasses", loss: "priority classes; pods have their priority all the same"}
	budgets    = target{group: "policy", name: "poddisruptionbudgets", loss: "disruption budgets"}
	jobs       = target{group: "batch", name: "jobs", loss: "whether Jobs make their pods anew"}

	deployments  = target{group: "apps", name: "deployments", loss: "the replicas and strategies of Deployments"}
	replicaSets  = target{group: "apps", name: "replicasets", loss: "which Deployments ReplicaSets belong to, and their replicas"}
	statefulSets = target{group: "apps", name: "statefulsets", loss: "the replicas and strategies of StatefulSets"}
	daemonSets   = target{group: "apps", name: "daemonsets", loss: "the strategies of DaemonSets"}
	cronJobs     = target{group: "batch", name: "cronjobs", loss: "the schedules of CronJobs"}
	autoscalers  = target{group: "autoscaling", name: "horizontalpodautoscalers", loss: "what HorizontalPodAutoscalers set"}

	metrics = target{group: "metrics.k8s.io", name: "nodes and pods", loss: "what nodes and pods use"}

	prometheus = target{name: "Prometheus"}
)

// RBAC returns the rights that a recorder needs, as YAML: a ClusterRole and nothing else. With usage it also may read
// metrics.k8s.io.
func RBAC(usage bool) ([]byte, error) {
	return yaml.Marshal(rbacv1.ClusterRole{
		TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRole"},
		ObjectMeta: metav1.ObjectMeta{Name: "gnnsched-record"},
		Rules:      Rules(usage),
	})
}

// Rules returns the rules of the role.
func Rules(usage bool) []rbacv1.PolicyRule {
	core := each.Map([]target{nodes, pods, namespaces}, func(r target) string { return r.name })
	verbs := []string{"list", "watch"}
	rules := []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: core, Verbs: verbs}}
	apps, batch := []target{deployments, replicaSets, statefulSets, daemonSets}, []target{jobs, cronJobs}
	for _, group := range [][]target{{classes}, {budgets}, apps, batch, {autoscalers}} {
		rule := rbacv1.PolicyRule{APIGroups: []string{group[0].group}, Verbs: verbs}
		for _, r := range group {
			rule.Resources = append(rule.Resources, r.name)
		}
		rules = append(rules, rule)
	}
	if usage {
		rules = append(rules, rbacv1.PolicyRule{
			APIGroups: []string{metrics.group}, Resources: []string{"nodes", "pods"}, Verbs: []string{"list"},
		})
	}
	return rules
}
