package observe

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"

	"gnnsched/internal/cluster/kube"
	"gnnsched/internal/exit"
	"gnnsched/workload/record"
)

// Objects holds the objects of one file for a record, and counts the others.
type Objects struct {
	Nodes   []*corev1.Node
	Pods    []*corev1.Pod
	others  []record.Object
	scope   scope
	Skipped map[string]int // number of objects that a record has no place for, by kind
	LeftOut map[string]Few // objects that cannot be read, by kind
	Bounded Few            // objects with amounts that no cluster has, which are bounded
	Undated Few            // pods that do not say since when they have their nodes
	Unsized Few            // nodes without capacity
	Newest  Time           // the newest time of any object, such as a condition's
}

// Few is a number of objects, or of files, with the first of them.
type Few struct {
	Objects int
	First   string // its name and its fault
}

// add adds an object, and quotes its name.
func (f *Few) add(name string, why error) {
	if f.Objects++; f.Objects == 1 {
		f.First = fmt.Sprintf("%s: %v", exit.Quote(name), why)
	}
}

// Join adds a file's objects to the previous files'.
func (f *Few) Join(file string, other Few) {
	if f.Objects == 0 && other.Objects > 0 {
		f.First = file + ": " + other.First
	}
	f.Objects += other.Objects
}

// Refusal is the error of a file that holds the API server's answer instead of objects.
type Refusal struct{ metav1.Status }

// Error implements error.
func (r Refusal) Error() string {
	out := fmt.Sprintf("the API server answered %s instead of objects", exit.Clean(string(r.Reason), 100))
	if r.Reason == "" {
		out = fmt.Sprintf("it is a Status (%s), no list of objects", exit.Clean(r.Status.Status, 100))
	}
	if r.Message != "" && r.Message != string(r.Reason) {
		out += ": " + exit.Clean(r.Message, 300)
	}
	return out
}

// ReadObjects reads what `kubectl get pods,nodes -A -o json` or `-o yaml` prints: a list of objects, or several lists or objects one
// after another. An object that cannot be read is left out. Errors name the file; NoObjects tells whether it holds nothing else than
// something else.
func ReadObjects(r io.Reader, file string) (Objects, error) {
	out := Objects{scope: newScope(), Skipped: map[string]int{}, LeftOut: map[string]Few{}}
	var alien error // the first document that has no objects
	found := false
	err := eachDocument(r, func(raw json.RawMessage) error {
		err := out.document(raw, maxDepth)
		found = found || err == nil
		if errors.Is(err, errNoObjects) {
			alien, err = cmp.Or(alien, err), nil
		}
		return err
	})
	switch {
	case err == nil && found && alien != nil: // beside other objects, it may be a broken object
		err = fmt.Errorf("%w%s", errBroken, strings.TrimPrefix(alien.Error(), notPrinted))
	case err == nil:
		err = alien
	}
	if err != nil {
		return out, fmt.Errorf("%s: %w", file, err)
	}
	return out, nil
}

// NoObjects reports whether an error of ReadObjects means an empty file or one of another kind. A file that is cut off, compressed or
// malformed is neither: it may have had objects.
func NoObjects(err error) bool { return errors.Is(err, errNoObjects) || errors.Is(err, errEmpty) }

// typed identifies the kind of an object.
type typed struct {
	Kind    string `json:"kind"`
	Version string `json:"apiVersion"`
}

// group returns the group of a version, such as policy of policy/v1; the group of v1 is empty.
func (t typed) group() string {
	group, _, named := strings.Cut(t.Version, "/")
	if !named {
		return ""
	}
	return group
}

// maxDepth bounds how deep lists are in lists, as jq -s makes them.
const maxDepth = 4

// document takes one document: a list of objects or of lists, an object, or several documents in brackets.
func (o *Objects) document(raw json.RawMessage, depth int) error {
	if depth == 0 {
		return fmt.Errorf("%w: lists are in lists over %d deep", errBroken, maxDepth)
	}
	if bytes.HasPrefix(raw, []byte("[")) {
		var all []json.RawMessage
		if err := json.Unmarshal(raw, &all); err != nil {
			return fmt.Errorf("%w: %w", errNoObjects, err)
		}
		for _, d := range all {
			if err := o.document(d, depth-1); err != nil {
				return err
			}
		}
		return nil
	}
	var doc struct {
		typed
		Items  json.RawMessage `json:"items"`
		Type   string          `json:"type"` // of a watch event
		Object json.RawMessage `json:"object"`
	}
	if json.Unmarshal(raw, &doc) != nil { // its message would be about Go
		return fmt.Errorf("%w: %s is no object", errNoObjects, exit.Quote(string(raw)))
	}
	switch {
	case doc.Kind == "Status" && doc.group() == "":
		var s metav1.Status
		_ = json.Unmarshal(raw, &s) // what cannot be read is not said
		return Refusal{s}
	case doc.Kind == "List" && doc.Version != "" && doc.Version != "v1":
		return fmt.Errorf("%w: its apiVersion is %s, want v1", errBroken, exit.Quote(doc.Version))
	case doc.Kind == "" && doc.Type != "" && doc.Object != nil:
		return fmt.Errorf("%w: it has watch events, as of kubectl get --output-watch-events; list the objects without --watch", errNoObjects)
	case doc.Kind == "" && doc.Items == nil:
		return o.untyped(raw, depth)
	case doc.Items == nil && !strings.HasSuffix(doc.Kind, "List"):
		o.add(raw, typed{}, &listing{namespaces: map[string]bool{}})
		return nil
	}
	var items []json.RawMessage // null is an empty list
	if doc.Items != nil {
		if err := json.Unmarshal(doc.Items, &items); err != nil {
			return fmt.Errorf("%w: its items are no list", errNoObjects)
		}
	}
	of := typed{strings.TrimSuffix(doc.Kind, "List"), doc.Version} // a PodList's objects may have no kind of their own
	l := &listing{kinds: map[string]bool{}, namespaces: map[string]bool{}}
	for _, item := range items {
		if inner := (typed{}); json.Unmarshal(item, &inner) == nil && strings.HasSuffix(inner.Kind, "List") {
			if err := o.document(item, depth-1); err != nil {
				return err
			}
			continue
		}
		o.add(item, of, l)
	}
	o.scope.add(l)
	return nil
}

// exported are the lists of an export of kube-scheduler-simulator.
var exported = map[string]typed{
	"pods": {kindPod, "v1"}, "nodes": {kindNode, "v1"}, "namespaces": {record.KindNamespace, "v1"},
	"priorityClasses": {record.KindPriorityClass, "scheduling.k8s.io/v1"},
}

// untyped takes a document without a kind: an object of a typed list, or an export of kube-scheduler-simulator.
func (o *Objects) untyped(raw json.RawMessage, depth int) error {
	if of := shapeOf(raw); of != (typed{}) {
		o.add(raw, of, &listing{namespaces: map[string]bool{}})
		return nil
	}
	var lists map[string]json.RawMessage
	if json.Unmarshal(raw, &lists) != nil || lists["pods"] == nil || lists["nodes"] == nil {
		return fmt.Errorf("%w: a document has no kind", errNoObjects)
	}
	for _, name := range slices.Sorted(maps.Keys(lists)) {
		of, known := exported[name]
		var items []json.RawMessage
		if json.Unmarshal(lists[name], &items) != nil || len(items) == 0 {
			continue // the scheduler's configuration, or an empty list
		}
		if !known {
			o.Skipped[exit.Clean(name, 100)] += len(items)
			continue
		}
		list, err := json.Marshal(map[string]any{"kind": of.Kind + "List", "apiVersion": of.Version, "items": lists[name]})
		if err == nil {
			err = o.document(list, depth-1)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// shapeOf tells pods and nodes without a kind by what they must have; empty for another object.
func shapeOf(raw json.RawMessage) typed {
	var is struct {
		Spec struct {
			Containers []json.RawMessage `json:"containers"`
		} `json:"spec"`
		Status struct {
			Allocatable map[string]json.RawMessage `json:"allocatable"`
		} `json:"status"`
	}
	switch err := json.Unmarshal(raw, &is); {
	case err == nil && is.Spec.Containers != nil:
		return typed{kindPod, "v1"}
	case err == nil && is.Status.Allocatable != nil:
		return typed{kindNode, "v1"}
	}
	return typed{}
}

// maxObject is the size in bytes of the largest object that is read. API servers take 3 MiB.
const maxObject = 4 << 20

// add adds one object of a listing. of is the type of the listing's objects that do not have one.
func (o *Objects) add(raw json.RawMessage, of typed, l *listing) {
	var is struct {
		typed
		Metadata struct {
			Namespace string `json:"namespace"`
			Name      string `json:"name"`
		} `json:"metadata"`
	}
	err := json.Unmarshal(raw, &is)
	if is.Kind == "" && of.Kind == "" {
		of = shapeOf(raw)
	}
	if is.Kind == "" {
		is.typed = of
	}
	object := objectKey{is.Kind, is.Metadata.Namespace, is.Metadata.Name}
	k, known := kinds[is.Kind]
	at := int64(0)
	switch {
	case err != nil:
		err = errors.New("it is no object")
	case len(raw) > maxObject:
		err = fmt.Errorf("it has %d bytes, and API servers take 3 MiB", len(raw))
	case tiny(raw):
		err = errors.New("it has an amount with an exponent below -999")
	case is.Kind == "":
		err = errors.New("it has no kind")
	case !known || is.Version != "" && is.group() != k.group:
		o.Skipped[exit.Clean(strings.TrimSuffix(is.Kind+"."+is.group(), "."), 100)]++
		l.namespace(object.namespace)
		return
	case object.name == "":
		err = errors.New("it has no name")
	default:
		at, err = k.read(o, raw, is.Version)
	}
	if err != nil {
		kind := cmp.Or(exit.Clean(is.Kind, 100), "none")
		few := o.LeftOut[kind]
		few.add(strings.TrimPrefix(object.namespace+"/"+object.name, "/"), err)
		o.LeftOut[kind] = few
		o.scope.unread[object] = true
		l.namespace(object.namespace)
		return
	}
	l.namespace(object.namespace)
	if l.kinds == nil { // an object by itself
		o.scope.names[object] = true
	} else {
		l.kinds[is.Kind] = true
		o.scope.listed[object] = at
	}
}

// tiny reports whether an object has an amount such as 1e-100000000, which takes Kubernetes' parser forever.
func tiny(raw []byte) bool {
	const number = "0123456789."
	for i := 2; i < len(raw); i++ {
		if raw[i] != '-' || raw[i-1] != 'e' && raw[i-1] != 'E' || !strings.ContainsRune(number, rune(raw[i-2])) {
			continue
		}
		exponent := raw[i+1 : min(len(raw), i+5)]
		begin := bytes.TrimRight(raw[:i-1], number+"+-")
		alone := len(begin) == 0 || strings.ContainsRune("\":[, \n\t", rune(begin[len(begin)-1]))
		if alone && len(exponent) == 4 && len(bytes.Trim(exponent, number)) == 0 {
			return true
		}
	}
	return false
}

// kinds are the kinds of objects that a record holds.
var kinds = map[string]struct {
	group string
	read  func(o *Objects, raw json.RawMessage, version string) (newest int64, err error)
}{
	kindPod:                  {"", reader((*Objects).pod, "v1")},
	kindNode:                 {"", reader((*Objects).node, "v1")},
	record.KindNamespace:     {"", reader(other(Namespace), "v1")},
	record.KindPriorityClass: {schedulingv1.GroupName, reader(other(PriorityClass), classVersions...)},
	record.KindJob:           {batchv1.GroupName, reader(other(Job), "batch/v1")},
	record.KindBudget:        {policyv1.GroupName, reader(budget, "policy/v1", "policy/v1beta1")},
	record.KindDeployment:    {appsv1.GroupName, reader(other(Deployment), apps)},
	record.KindReplicaSet:    {appsv1.GroupName, reader(other(ReplicaSet), apps)},
	record.KindStatefulSet:   {appsv1.GroupName, reader(other(StatefulSet), apps)},
	record.KindDaemonSet:     {appsv1.GroupName, reader(other(DaemonSet), apps)},
	record.KindCronJob:       {batchv1.GroupName, reader(other(CronJob), "batch/v1", "batch/v1beta1")},
	record.KindAutoscaler:    {autoscalingv2.GroupName, reader(other(Autoscaler), "autoscaling/v2", "autoscaling/v2beta2")},
}

const kindPod, kindNode = "Pod", "Node"

const apps = "apps/v1"

var classVersions = []string{"scheduling.k8s.io/v1", "scheduling.k8s.io/v1beta1", "scheduling.k8s.io/v1alpha1"}

// pointer is a pointer to an object of Kubernetes' API.
type pointer[T any] interface {
	*T
	metav1.Object
	runtime.Object
}

// Row translates one object, as JSON, of a kind that the table objects holds. known is false for other kinds.
func Row(raw json.RawMessage) (row record.Object, known bool, err error) {
	o := Objects{scope: newScope(), Skipped: map[string]int{}, LeftOut: map[string]Few{}}
	o.add(raw, typed{}, &listing{namespaces: map[string]bool{}})
	for _, few := range o.LeftOut {
		return row, false, errors.New(few.First)
	}
	if len(o.others) == 0 {
		return row, false, nil
	}
	return o.others[0], true, nil
}

// reader returns a function that decodes an object of one kind and passes it to put. versions are the API versions with the fields that
// are read. An object without a version, as in some lists, is accepted.
func reader[T any, P pointer[T]](put func(*Objects, P) error, versions ...string) func(*Objects, json.RawMessage, string) (int64, error) {
	return func(o *Objects, raw json.RawMessage, version string) (int64, error) {
		x := P(new(T))
		if err := json.Unmarshal(raw, x); err != nil {
			return 0, err
		}
		if version != "" && !slices.Contains(versions, version) {
			return 0, fmt.Errorf("its apiVersion is %s, want %s", exit.Quote(version), strings.Join(versions, ", "))
		}
		x.GetObjectKind().SetGroupVersionKind(schema.FromAPIVersionAndKind(version, ""))
		if err := put(o, x); err != nil {
			return 0, err
		}
		t := newest(x)
		o.Newest = newer(o.Newest, t)
		return t.At, nil
	}
}

func (o *Objects) pod(p *corev1.Pod) error {
	bounded := BoundPod(p)
	row := Pod(p)
	if err := record.Check(&row); err != nil {
		return err
	}
	if bounded != nil {
		o.Bounded.add(p.Namespace+"/"+p.Name, bounded)
	}
	if row.Node != "" && row.Bound == 0 {
		o.Undated.add(p.Namespace+"/"+p.Name, errors.New("it is on node "+exit.Quote(row.Node)))
	}
	o.Pods = append(o.Pods, p)
	return nil
}

func (o *Objects) node(n *corev1.Node) error {
	bounded := boundNode(n)
	row := Node(n)
	if err := record.Check(&row); err != nil {
		return err
	}
	if bounded != nil {
		o.Bounded.add(n.Name, bounded)
	}
	if len(n.Status.Allocatable) == 0 {
		o.Unsized.add(n.Name, errors.New("it has no status.allocatable"))
	}
	o.Nodes = append(o.Nodes, n)
	return nil
}

// other returns how objects are taken that a record has in the table objects.
func other[P any](row func(P) record.Object) func(*Objects, P) error {
	return func(o *Objects, x P) error {
		r := row(x)
		if err := record.Check(&r); err != nil {
			return err
		}
		o.others = append(o.others, r)
		return nil
	}
}

// budget takes a PodDisruptionBudget. An empty selector selects no pod in policy/v1beta1, and all pods of the namespace in
// policy/v1. The API server takes neither limits nor selectors that cannot be read, but a file may have them.
func budget(o *Objects, b *policyv1.PodDisruptionBudget) error {
	for _, limit := range []*intstr.IntOrString{b.Spec.MinAvailable, b.Spec.MaxUnavailable} {
		if limit == nil {
			continue
		}
		if _, err := intstr.GetScaledValueFromIntOrPercent(limit, 100, true); err != nil {
			return err
		}
	}
	if _, err := metav1.LabelSelectorAsSelector(b.Spec.Selector); err != nil {
		return err
	}
	if s := b.Spec.Selector; b.APIVersion == "policy/v1beta1" && s != nil && len(s.MatchLabels) == 0 && len(s.MatchExpressions) == 0 {
		b.Spec.Selector = nil
	}
	return other(Budget)(o, b)
}

// mark is an annotation with which an owner asks to leave a pod or a node where it is.
type mark struct {
	key  string
	asks func(value string) bool // nil: any value does
}

func only(value string) func(string) bool { return func(is string) bool { return is == value } }

// podMarks are the annotations of pods that autoscalers and the descheduler honour. Of the descheduler's prefer-no-eviction only the
// presence counts. With its evict of any value, pods may be evicted; the value "false" does not mean the opposite.
var podMarks = []mark{
	{"cluster-autoscaler.kubernetes.io/safe-to-evict", only("false")},
	{"karpenter.sh/do-not-disrupt", trueOrTime},
	{"karpenter.sh/do-not-evict", only("true")}, // before Karpenter 0.32
	{"descheduler.alpha.kubernetes.io/prefer-no-eviction", nil},
	{"descheduler.alpha.kubernetes.io/evict", only("false")},
}

// nodeMarks are the annotations of nodes that autoscalers honour.
var nodeMarks = []mark{
	{"cluster-autoscaler.kubernetes.io/scale-down-disabled", only("true")},
	{"karpenter.sh/do-not-disrupt", only("true")},
	{"karpenter.sh/do-not-consolidate", only("true")}, // before Karpenter 0.32
}

// trueOrTime accepts "true" and, as Karpenter does since 1.12, the time for which the pod stays after its start.
func trueOrTime(value string) bool {
	const longest = 32 // bytes; ParseDuration takes any number of terms
	d, err := time.ParseDuration(value)
	return value == "true" || err == nil && d > 0 && len(value) <= longest
}

// doNotDisrupt returns the annotations that ask to leave the object, as key=value. Where only the presence counts, it omits the value. The
// list is never nil.
func doNotDisrupt(annotations map[string]string, marks []mark) []string {
	out := []string{}
	for _, m := range marks {
		value, has := annotations[m.key]
		switch {
		case has && m.asks == nil:
			out = append(out, m.key)
		case has && m.asks(value):
			out = append(out, m.key+"="+value)
		}
	}
	return out
}

// health returns the health of a pod that has not ended, and since when; 0 if the pod does not tell. A pod without a Ready condition that
// is neither pending nor being deleted has none: no kubelet has reported it.
func health(p *corev1.Pod) (is string, since int64) {
	if kube.Finished(p) {
		return "", 0
	}
	if t := p.DeletionTimestamp; t != nil {
		grace := time.Duration(0)
		if s := p.DeletionGracePeriodSeconds; s != nil {
			grace = time.Duration(*s) * time.Second
		}
		return record.Terminating, max(t.Add(-grace).UnixMilli(), 0)
	}
	if p.Status.Phase == corev1.PodPending {
		return record.Pending, millis(p.CreationTimestamp)
	}
	for _, c := range p.Status.Conditions {
		if c.Type != corev1.PodReady {
			continue
		}
		if c.Status == corev1.ConditionTrue {
			return record.Ready, millis(c.LastTransitionTime)
		}
		return record.NotReady, millis(c.LastTransitionTime)
	}
	return "", 0
}

// budgetStatus returns the disruption controller's status, as JSON. It is empty if the controller has not seen the present budget.
func budgetStatus(b *policyv1.PodDisruptionBudget) string {
	s := policyv1.PodDisruptionBudgetStatus{
		DisruptionsAllowed: b.Status.DisruptionsAllowed, CurrentHealthy: b.Status.CurrentHealthy, DesiredHealthy: b.Status.DesiredHealthy,
		ExpectedPods: b.Status.ExpectedPods,
	}
	seen := b.Status.ObservedGeneration
	if numbers := [...]int32{s.DisruptionsAllowed, s.CurrentHealthy, s.DesiredHealthy, s.ExpectedPods}; seen < b.Generation && seen > 0 ||
		seen == 0 && numbers == [4]int32{} {
		return ""
	}
	return record.JSON(s)
}
