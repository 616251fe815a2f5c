package record

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode"
	"unique"

	corev1 "k8s.io/api/core/v1"

	"gnnsched/internal/cluster"
)

// version is the version of the format that this package writes.
const version = 1

// Pod is a row of the table pods: the known properties of a pod. Its key is UID.
type Pod struct {
	UID string `parquet:"uid"` // as in the pod
	// Namespace and Name are the pod's namespace and name.
	Namespace string `parquet:"namespace,dict"`
	Name      string `parquet:"name"`

	// OwnerKind and OwnerName are its controller, such as a ReplicaSet; null without one.
	OwnerKind string `parquet:"owner_kind,optional,dict"`
	OwnerName string `parquet:"owner_name,optional,dict"`
	Workload  string `parquet:"workload,optional,dict"`  // the owner's owner if the name tells it, such as Deployment/web; else the owner
	Daemon    bool   `parquet:"daemon"`                  // whether it belongs to a DaemonSet, or is a static pod of its node
	Scheduler string `parquet:"scheduler,optional,dict"` // its schedulerName

	// Priority, PriorityClass and Preemption are the pod's priority, class and preemption policy: PreemptLowerPriority or Never.
	Priority      int32  `parquet:"priority"`
	PriorityClass string `parquet:"priority_class,optional,dict"`
	Preemption    string `parquet:"preemption_policy,optional,dict"`

	// MilliCPU and Memory are its requests as kube-scheduler counts them: with init containers, sidecars and overhead, and during a resize the
	// larger of spec and status. At most 10,000 cores and 16 TiB.
	MilliCPU  int64  `parquet:"cpu_milli,dict"`
	Memory    int64  `parquet:"memory_bytes,dict"`
	GPU       int64  `parquet:"gpu,dict"`                 // whole devices
	GPUMilli  int64  `parquet:"gpu_milli,dict"`           // a share of one device
	GPUModels string `parquet:"gpu_models,optional,dict"` // list of the accepted models; null: any
	GPUIndex  string `parquet:"gpu_index,optional,dict"`  // the devices that its scheduler gave it, such as 0-1; null: not known
	Extended  string `parquet:"extended,optional,dict"`   // other requests: name to quantity
	// CPULimit and MemoryLimit are its limits; null without one.
	CPULimit    int64 `parquet:"cpu_limit_milli,optional,dict"`
	MemoryLimit int64 `parquet:"memory_limit_bytes,optional,dict"`

	// Labels, NodeSelector, Affinity and Spread are the pod's labels and constraints, without the node's name in the affinity of a
	// DaemonSet's pod.
	Labels       string `parquet:"labels,optional,dict"`
	NodeSelector string `parquet:"node_selector,optional,dict"`
	Affinity     string `parquet:"affinity,optional,dict"`        // spec.affinity
	Spread       string `parquet:"topology_spread,optional,dict"` // spec.topologySpreadConstraints
	// spec.tolerations, without the default ones for not-ready and unreachable nodes
	Tolerations string `parquet:"tolerations,optional,dict"`
	HostPorts   string `parquet:"host_ports,optional,dict"` // list such as "TCP/0.0.0.0/80", of containers and native sidecars
	Claims      string `parquet:"claims,optional,dict"`     // list of the PersistentVolumeClaims in its namespace
	Images      string `parquet:"images,optional,dict"`     // list, of all containers and of volumes
	Holds       string `parquet:"holds,optional,dict"`      // which of emptyDir, hostPath and resourceClaim it has; null: not recorded
	// annotations with which its owner asks to leave it, as a list of key=value; null: not recorded
	DoNotDisrupt string `parquet:"do_not_disrupt,optional,dict"`
	// controller.kubernetes.io/pod-deletion-cost, as last seen; null: 0, or not recorded
	DeletionCost int32  `parquet:"deletion_cost,optional,dict"`
	Deadline     int64  `parquet:"deadline_s,optional,dict"` // spec.activeDeadlineSeconds; null: none
	Group        string `parquet:"pod_group,optional,dict"`  // the group of pods with which it runs or falls; null: none, or not recorded

	// Arrived is the time of its creation or of the loss of its last scheduling gate. If the recorder missed the loss, it is when the pod got
	// its node, else when it was listed again; if this run never saw its gates, when it was created.
	Arrived int64 `parquet:"arrived,timestamp(millisecond),delta"`
	Bound   int64 `parquet:"bound,optional,timestamp(millisecond)"` // when it got its node
	Ended   int64 `parquet:"ended,optional,timestamp(millisecond)"` // when it released its node's resources
	// Succeeded, Failed, Deleted, Preempted, Evicted, or Unseen if it went while not recorded; null: not ended
	End  string `parquet:"end,optional,dict"`
	Node string `parquet:"node,optional,dict"` // its node

	// Health and HealthSince are the last change that was seen: Ready, NotReady, Pending (not all containers have started) or
	// Terminating; null: not known.
	Health      string `parquet:"health,optional,dict"`
	HealthSince int64  `parquet:"health_since,optional,timestamp(millisecond)"`
}

// HealthAt returns the pod's health at a time; "" if the record does not say, as of times before the last change.
func (p *Pod) HealthAt(t int64) string {
	if t < p.HealthSince {
		return ""
	}
	return p.Health
}

// The values of Pod.Health.
const (
	Ready       = "Ready"
	NotReady    = "NotReady"
	Pending     = "Pending"     // of its containers not all have started
	Terminating = "Terminating" // it is being deleted
)

// The values of Pod.End.
const (
	Succeeded = "Succeeded"
	Failed    = "Failed"
	Deleted   = "Deleted" // deleted while it ran or waited
	Preempted = "Preempted"
	Evicted   = "Evicted"
	// Unseen marks a pod that went while not recorded; Ended is then the time at which it was noticed.
	Unseen = "Unseen"
)

// What Pod.Holds may have.
const (
	HoldsEmptyDir = "emptyDir" // volumes whose data end with the pod
	HoldsHostPath = "hostPath" // volumes of its node's own files
	HoldsDevices  = "resourceClaim"
)

// Node is a row of the table nodes: a node's state from one change to the next. Its key is Name and From.
type Node struct {
	Name string `parquet:"name,dict"` // of the node
	// From and To are the time of this state; Gone is true if the node left the cluster at To.
	From int64 `parquet:"from,timestamp(millisecond)"`
	To   int64 `parquet:"to,optional,timestamp(millisecond)"`
	Gone bool  `parquet:"gone"`

	// MilliCPU, Memory, Pods and GPU are allocatable.
	MilliCPU      int64  `parquet:"cpu_milli,dict"`
	Memory        int64  `parquet:"memory_bytes,dict"`
	Pods          int64  `parquet:"pods,dict"`
	GPU           int64  `parquet:"gpu,dict"`
	GPUModel      string `parquet:"gpu_model,optional,dict"`      // of its GPUs
	Extended      string `parquet:"extended,optional,dict"`       // other allocatable resources: name to quantity
	Capacity      string `parquet:"capacity,optional,dict"`       // status.capacity
	Labels        string `parquet:"labels,optional,dict"`         // of the node
	Taints        string `parquet:"taints,optional,dict"`         // spec.taints
	Unschedulable bool   `parquet:"unschedulable"`                // whether it is cordoned
	DoNotDisrupt  string `parquet:"do_not_disrupt,optional,dict"` // as of a pod
}

// Object is a row of the table objects: what pods refer to or belong to, from one change to the next. Its key is Kind, Namespace,
// Name and From.
type Object struct {
	Kind string `parquet:"kind,dict"` // one of the constants Kind…
	// Namespace and Name are the object's namespace and name.
	Namespace string `parquet:"namespace,optional,dict"`
	Name      string `parquet:"name,dict"`
	// From, To and Gone are as of a node.
	From int64 `parquet:"from,timestamp(millisecond)"`
	To   int64 `parquet:"to,optional,timestamp(millisecond)"`
	Gone bool  `parquet:"gone"`
	// Spec is the labels of a Namespace, the value of a PriorityClass, the spec of a PodDisruptionBudget, and how many more pods of a Job may
	// be evicted before it fails.
	Spec string `parquet:"spec,optional,dict"`
	// Status is the disruption controller's status of a PodDisruptionBudget in this state: disruptionsAllowed, currentHealthy, desiredHealthy
	// and expectedPods; null: not known.
	Status string `parquet:"status,optional,dict"`
	// Scale is what an owner of pods, or a HorizontalPodAutoscaler, asks for: a Scale as JSON; null for other kinds, and in records of before.
	Scale string `parquet:"scale,optional,dict"`
}

// Sample is a row of the table usage: the usage of a node or a pod at a time. Its key is all that names it.
type Sample struct {
	Time      int64  `parquet:"time,timestamp(millisecond),delta"` // of the measurement
	Namespace string `parquet:"namespace,optional,dict"`           // null for a node
	Name      string `parquet:"name,dict"`                         // of the node or pod
	// MilliCPU and Memory are its usage.
	MilliCPU int64 `parquet:"cpu_milli,delta"`
	Memory   int64 `parquet:"memory_bytes,delta"`
}

// Run is a row of the table runs: a time of recording. The events between two runs are not known. Its key is ID.
type Run struct {
	ID     string `parquet:"id,dict"`     // of the run
	Source string `parquet:"source,dict"` // live, kubectl, prometheus, openb, simkube, …
	// From and To are the time of recording.
	From       int64  `parquet:"from,timestamp(millisecond)"`
	To         int64  `parquet:"to,timestamp(millisecond)"`
	Anonymised bool   `parquet:"anonymised"`       // whether names are pseudonyms
	Lost       int64  `parquet:"lost"`             // rows that no disk took
	Missing    string `parquet:"missing,optional"` // what was forbidden or not asked for
	Program    string `parquet:"program,optional"` // version of the writing program
}

// row is a row of some table.
type row interface {
	Pod | Node | Object | Sample | Run
}

// tables are the names of the tables, as files have them.
var tables = []string{"pods", "nodes", "objects", "usage", "runs"}

// tableOf returns the name of the table that has rows of type T.
func tableOf[T row]() string {
	var zero T
	switch any(zero).(type) {
	case Pod:
		return "pods"
	case Node:
		return "nodes"
	case Object:
		return "objects"
	case Sample:
		return "usage"
	}
	return "runs"
}

// key identifies a row within its table.
type key struct {
	a, b, c string
	from    int64
}

func keyOf[T row](r *T) key {
	switch x := any(r).(type) {
	case *Pod:
		return key{a: x.UID}
	case *Node:
		return key{a: x.Name, from: x.From}
	case *Object:
		return key{a: x.Kind, b: x.Namespace, c: x.Name, from: x.From}
	case *Sample:
		return key{a: x.Namespace, b: x.Name, from: x.Time}
	case *Run:
		return key{a: x.ID}
	}
	panic("record: a row of no table")
}

// maxTime is the end of the year 9999.
const maxTime = 253402300799999

// Check returns an error for an invalid row. A Writer refuses such rows, and readers leave them out, because a file may come from anyone.
func Check[T row](r *T) error {
	if err := texts(r); err != nil {
		return err
	}
	switch x := any(r).(type) {
	case *Pod:
		return x.check()
	case *Node:
		if err := cmp.Or(names("a node", x.Name), times(x.From, x.To)); err != nil {
			return err
		}
		return amounts(x.Name, x.MilliCPU, x.Memory, x.Pods, x.GPU)
	case *Object:
		return cmp.Or(names("a "+x.Kind, x.Name), names("a namespace", x.Namespace), times(x.From, x.To))
	case *Sample:
		if err := cmp.Or(names("what was measured", x.Name), names("a namespace", x.Namespace), times(x.Time)); err != nil {
			return err
		}
		return amounts(x.Name, 0, x.Memory, x.MilliCPU, 0)
	case *Run:
		return times(x.From, x.To)
	}
	return nil
}

func (p *Pod) check() error {
	if p.UID == "" {
		return fmt.Errorf("pod %q has no uid", p.Name)
	}
	if len(p.UID) > 2*maxWord+1 { // NAMESPACE/NAME where there is no UID
		return fmt.Errorf("the uid of pod %q has %d bytes", Word(p.Name), len(p.UID))
	}
	err := cmp.Or(names("a pod", p.Name), names("a namespace", p.Namespace), names("a node", p.Node),
		names("a priority class", p.PriorityClass))
	if err != nil {
		return err
	}
	if err := times(p.Arrived, p.Bound, p.Ended, p.HealthSince); err != nil {
		return fmt.Errorf("pod %q: %w", p.Name, err)
	}
	if p.GPUMilli < 0 || p.GPUMilli >= cluster.DeviceMilli {
		return fmt.Errorf("pod %q: gpu_milli %d is not 0 to %d", p.Name, p.GPUMilli, cluster.DeviceMilli-1)
	}
	return amounts(p.Name, p.MilliCPU, p.Memory, 1, p.GPU)
}

func times(all ...int64) error {
	for _, t := range all {
		if t < 0 || t > maxTime {
			return fmt.Errorf("the time %d is not in 1970 to 9999", t)
		}
	}
	return nil
}

// amounts checks CPU, memory, and two numbers that have no unit.
func amounts(name string, cpu, memory int64, counts ...int64) error {
	if cpu < 0 || cpu > cluster.MaxMilliCPU {
		return fmt.Errorf("%q: %d thousandths of a core are out of range", name, cpu)
	}
	if memory < 0 || memory > cluster.MaxMemory {
		return fmt.Errorf("%q: %d bytes are out of range", name, memory)
	}
	for _, n := range counts {
		if n < 0 || n > math.MaxInt32 {
			return fmt.Errorf("%q: the number %d is out of range", name, n)
		}
	}
	return nil
}

// Moment is a record at a time.
type Moment struct {
	Dir string
	At  int64 // milliseconds since 1970; 0: the end of the record
}

// ParseMoment reads "prod.record", which means the record's end, or "prod.record@2026-03-01T12:00:00Z". ok is false if
// the path names no record.
func ParseMoment(path string) (m Moment, ok bool, err error) {
	if Is(path) {
		return Moment{Dir: path}, true, nil
	}
	i := strings.LastIndexByte(path, '@')
	if i < 0 || !Is(path[:i]) {
		return Moment{}, false, nil
	}
	at, err := time.Parse(time.RFC3339, path[i+1:])
	if err != nil || at.UnixMilli() <= 0 {
		return Moment{}, true, fmt.Errorf("%s: %q is no time such as 2026-03-01T12:00:00Z", path[:i], path[i+1:])
	}
	return Moment{Dir: path[:i], At: at.UnixMilli()}, true, nil
}

// NodesAt returns the nodes that were there at a time, by name; 0 means the end of the record.
func (r *Record) NodesAt(at int64) ([]Node, error) {
	all, err := r.Nodes()
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, errors.New("the record has no nodes")
	}
	first := slices.MinFunc(all, func(a, b Node) int { return cmp.Compare(a.From, b.From) }).From
	all = slices.DeleteFunc(all, func(n Node) bool {
		if at == 0 {
			return n.To != 0
		}
		return n.From > at || n.To != 0 && n.To <= at
	})
	if len(all) == 0 {
		return nil, fmt.Errorf("no node was there at that time; the record begins at %s", time.UnixMilli(first).UTC().Format(time.RFC3339))
	}
	return all, nil
}

// JSON returns a value as the text of a column, without control characters. The types of columns can always be written.
func JSON(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return ""
	}
	out := string(b)
	if !strings.ContainsFunc(out, unicode.IsControl) {
		return out
	}
	var escaped strings.Builder // JSON does not escape 0x7f to 0x9f
	for _, r := range out {
		if unicode.IsControl(r) {
			fmt.Fprintf(&escaped, `\u%04x`, r)
		} else {
			escaped.WriteRune(r)
		}
	}
	return escaped.String()
}

// Column returns a list or a map as the text of a column: null if it is empty, else JSON.
func Column[T []string | map[string]string | []corev1.Toleration | []corev1.Taint | []corev1.TopologySpreadConstraint](v T) string {
	if len(v) == 0 {
		return ""
	}
	return JSON(v)
}

// ReadColumn reads a JSON column. It leaves into unchanged if the column is null or cannot be read.
func ReadColumn[T any](column string, into *T) error {
	if column == "" {
		return nil
	}
	var out T
	if err := json.Unmarshal([]byte(column), &out); err != nil {
		return err
	}
	*into = out
	return nil
}

// Labels reads a column of labels; the result is never nil. A column that cannot be read has none.
func Labels(column string) map[string]string {
	var out map[string]string
	if ReadColumn(column, &out) != nil || out == nil {
		return map[string]string{}
	}
	return out
}

// Intern shares the texts of a pod that other pods are likely to have, too.
func (p *Pod) Intern() {
	for _, f := range []*string{
		&p.Namespace, &p.OwnerKind, &p.OwnerName, &p.Workload, &p.Scheduler, &p.PriorityClass, &p.Preemption, &p.GPUModels, &p.GPUIndex,
		&p.Extended, &p.Labels, &p.NodeSelector, &p.Affinity, &p.Spread, &p.Tolerations, &p.HostPorts, &p.Claims, &p.Images, &p.Holds,
		&p.DoNotDisrupt,
		&p.Health, &p.End, &p.Node,
	} {
		*f = unique.Make(*f).Value()
	}
}
