package live

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

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
	"sigs.k8s.io/yaml"

	"gnnsched/internal/exit"
	"gnnsched/internal/watched"
	"gnnsched/workload/record"
	"gnnsched/workload/record/observe"
)

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
	r.follow(ctx, &work, jobs, c.BatchV1().RESTClient(), objects(f, record.KindJob, &batchv1.Job{}, &batchv1.JobList{}, observe.Job))
	if r.cfg.Usage != nil {
		work.Go(func() { r.measure(ctx) })
	}
	work.Wait()
	return r.fatal
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
		rows := make([]record.Object, len(all))
		for i, o := range all {
			rows[i] = row(o)
		}
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
	metrics    = target{group: "metrics.k8s.io", name: "nodes and pods", loss: "what nodes and pods use"}

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
	var core []string
	for _, r := range []target{nodes, pods, namespaces} {
		core = append(core, r.name)
	}
	verbs := []string{"list", "watch"}
	rules := []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: core, Verbs: verbs}}
	for _, r := range []target{classes, budgets, jobs} {
		rules = append(rules, rbacv1.PolicyRule{APIGroups: []string{r.group}, Resources: []string{r.name}, Verbs: verbs})
	}
	if usage {
		rules = append(rules, rbacv1.PolicyRule{
			APIGroups: []string{metrics.group}, Resources: []string{"nodes", "pods"}, Verbs: []string{"list"},
		})
	}
	return rules
}
