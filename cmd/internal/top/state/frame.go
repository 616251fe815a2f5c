// Package state holds a cluster for ktop and for the page: nodes, pods, devices, and what schedulers tell.
//
// [Start] follows an API server. A [Source] hands its changes to a [Cluster], which adds up totals and returns them at any moment
// as a [Frame]; rarer questions have [Details]. A change costs the same however large the cluster is: every node has its own running
// sums, and of a pod only a few numbers are kept.
package state

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metrics "k8s.io/metrics/pkg/apis/metrics/v1beta1"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/kube"
)

// Frame is the cluster at one moment, as plain values that the caller owns.
type Frame struct {
	Time         time.Time
	Nodes        []Node // in the natural order of their names (node-2 before node-10)
	Totals       Totals
	CPUSpread    Spread
	Pending      []PendingPod // oldest first; may hold fewer than PendingCount
	PendingCount int
	Schedulers   []Scheduler // by name
	Lost         *Lost       // nil while the API server answers
}

// Node is a node with the sums of its pods' requests.
type Node struct {
	Name       string
	Status     string   // in kubectl's words: Ready, NotReady, Unknown, "Ready,SchedulingDisabled"
	Roles      []string // from the node-role.kubernetes.io/ labels, sorted
	Version    string   // of the kubelet
	Zone       string
	GPUModel   string // empty without GPUs, or if the node does not say it
	InternalIP string
	Taints     []string // key=value:Effect, sorted
	Created    time.Time
	Ready      bool
	Cordoned   bool // spec.unschedulable
	Worker     bool // has no control-plane taint, so that ordinary pods may run here

	CPU    Usage // millicores
	Memory Usage // bytes
	GPU    Usage // thousandths of a device, shares included
	Pods   Usage // pods; Requested is their number

	// Used holds the measured usage of the node, nil without a measurement.
	Used *Measured

	// Devices holds the requested thousandths of each GPU, nil without GPUs. Amounts of pods without device numbers count on idle ones first.
	Devices []int64
}

// Role returns the node's roles, separated by commas. A node without roles is a "worker" if
// ordinary pods may run on it, else "none".
func (n *Node) Role() string {
	switch {
	case len(n.Roles) > 0:
		return strings.Join(n.Roles, ",")
	case n.Worker:
		return "worker"
	}
	return "none"
}

// Usage is a requested and an allocatable amount of one resource.
type Usage struct {
	Requested   int64
	Allocatable int64
}

// Fraction is Requested / Allocatable; over 1 means overcommitted. If nothing is allocatable, it is
// 0, or 1 if something is requested all the same.
func (u Usage) Fraction() float64 {
	switch {
	case u.Allocatable > 0:
		return float64(u.Requested) / float64(u.Allocatable)
	case u.Requested > 0:
		return 1
	}
	return 0
}

func (u Usage) plus(v Usage) Usage {
	return Usage{Requested: u.Requested + v.Requested, Allocatable: u.Allocatable + v.Allocatable}
}

// Totals is the sum over the nodes of a frame. Amounts are sums over the worker nodes only, since ordinary pods cannot use a control plane;
// without any worker, over all nodes.
type Totals struct {
	Nodes    int
	Ready    int
	Cordoned int
	Workers  int // nodes whose amounts are summed up
	CPU      Usage
	Memory   Usage
	GPU      Usage
	Pods     Usage

	// Used is the sum over the nodes that are measured, and Measured their number. Nil if it is 0.
	Used     *Measured
	Measured int
}

// Spread describes how the CPU fractions of the worker nodes differ (0 is an empty node, 1 a full
// one). The statistics are of the population.
type Spread struct {
	Nodes int // number of worker nodes
	Mean  float64
	Std   float64
	Min   float64
	Max   float64
}

// PendingPod is a pod without a node, with the reason from its PodScheduled condition.
type PendingPod struct {
	Namespace string
	Name      string
	Workload  string // its controller, as Kind/name; empty without one
	Scheduler string
	Created   time.Time
	Reason    string // Unschedulable, SchedulingGated, …; empty before the first attempt
	Message   string
	Needs     string // node labels that it selects
}

// Scheduler counts the pods that name one scheduler in spec.schedulerName.
type Scheduler struct {
	Name    string
	Bound   int     // pods on nodes now
	Pending int     // pods waiting now
	Rate    float64 // pods bound per second over the last 10 seconds
}

// Lost describes an outage: the API server has not answered since then, so the figures are old.
type Lost struct {
	Since  time.Time
	Reason string
}

// HasGPU tells whether any node offers a GPU.
func (f *Frame) HasGPU() bool { return f.Totals.GPU.Allocatable > 0 }

// Moving ends the status of a node that gnnsched defrag moves pods to or from.
const Moving = ",Moving"

const (
	roleLabelPrefix = "node-role.kubernetes.io/"
	roleLabel       = "kubernetes.io/role" // the older label, which kubectl still reads
)

// nodeOf converts an API node. Requested amounts stay zero: they come from the pods.
func nodeOf(n *v1.Node) Node {
	allocatable := kube.AmountsIn(n.Status.Allocatable)
	gpus := &cluster.Node{}
	kube.SetGPUs(gpus, n, allocatable)
	out := Node{
		Name:     n.Name,
		Status:   "Unknown",
		Roles:    roles(n.Labels),
		Version:  Printable(n.Status.NodeInfo.KubeletVersion),
		Zone:     n.Labels[v1.LabelTopologyZone],
		Created:  n.CreationTimestamp.Time,
		Cordoned: n.Spec.Unschedulable,
		Worker:   true,
		CPU:      Usage{Allocatable: allocatable.MilliCPU},
		Memory:   Usage{Allocatable: allocatable.Memory},
		Pods:     Usage{Allocatable: allocatable.Pods},
		GPU:      Usage{Allocatable: gpus.Allocatable.TotalGPUMilli()},
		GPUModel: Printable(gpus.GPUModel),
		Devices:  gpus.GPUs,
	}
	for _, c := range n.Status.Conditions {
		if c.Type == v1.NodeReady {
			out.Status, out.Ready = readiness(c.Status)
		}
	}
	if out.Cordoned {
		out.Status += ",SchedulingDisabled"
	}
	if n.Annotations[kube.HoldsAnnotation] != "" || strings.HasPrefix(n.Annotations[kube.DefragAnnotation], kube.DefragMoving) {
		out.Status += Moving
	}
	for _, a := range n.Status.Addresses {
		if a.Type == v1.NodeInternalIP && out.InternalIP == "" {
			out.InternalIP = Printable(a.Address)
		}
	}
	for i := range n.Spec.Taints {
		t := &n.Spec.Taints[i]
		out.Taints = append(out.Taints, t.ToString())
		if (cluster.Taint{Key: t.Key, Effect: cluster.Effect(t.Effect)}).ControlPlane() {
			out.Worker = false
		}
	}
	slices.Sort(out.Taints)
	return out
}

func readiness(s v1.ConditionStatus) (status string, ready bool) {
	switch s {
	case v1.ConditionTrue:
		return "Ready", true
	case v1.ConditionFalse:
		return "NotReady", false
	}
	return "Unknown", false
}

func roles(labels map[string]string) []string {
	var out []string
	for k, v := range labels {
		switch {
		case strings.HasPrefix(k, roleLabelPrefix):
			if role := k[len(roleLabelPrefix):]; role != "" {
				out = append(out, role)
			}
		case k == roleLabel && v != "":
			out = append(out, v)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Printable makes text from a cluster safe for a terminal: it replaces control characters and line
// breaks by spaces, and bytes that are not UTF-8.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
}

const (
	// usageInterval is the time between two requests for what nodes use. It is measured every 10 to 60 s.
	usageInterval = 5 * time.Second
	// usageTimeout limits the wait for an answer. The list of the nodes does not wait for it.
	usageTimeout = 5 * time.Second
)

// errUnmeasured reports that the client cannot ask for metrics.
var errUnmeasured = errors.New("the client has no connection of its own")

// listUsed asks metrics.k8s.io for the nodes' usage and returns it by name. It returns an error if the cluster lacks this API, as most do;
// then the nodes are shown without usage.
func listUsed(ctx context.Context, cfg Config) (map[string]Measured, error) {
	api := cfg.Client.Discovery().RESTClient()
	if api == nil {
		return nil, errUnmeasured
	}
	ctx, cancel := context.WithTimeout(ctx, usageTimeout)
	defer cancel()
	request := api.Get().AbsPath("/apis/metrics.k8s.io/v1beta1/nodes").SetHeader("Accept", "application/json").MaxRetries(0)
	if cfg.Selector != "" {
		request.Param("labelSelector", cfg.Selector)
	}
	raw, err := request.DoRaw(ctx)
	if err != nil {
		return nil, fmt.Errorf("ask what nodes use: %w", err)
	}
	var list metrics.NodeMetricsList
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, fmt.Errorf("ask what nodes use: %w", err)
	}
	used := make(map[string]Measured, len(list.Items))
	for i := range list.Items {
		u := list.Items[i].Usage
		used[list.Items[i].Name] = Measured{CPU: max(u.Cpu().MilliValue(), 0), Memory: max(u.Memory().Value(), 0)}
	}
	return used, nil
}

// followUsage keeps the nodes' usage up to date until ctx ends. Without an answer the nodes count as not measured.
func (s *Source) followUsage(ctx context.Context, cfg Config) {
	tick := time.NewTicker(usageInterval)
	defer tick.Stop()
	for {
		used, err := listUsed(ctx, cfg)
		if err != nil && ctx.Err() == nil {
			cfg.Log.V(1).Info("nodes are not measured", "err", err.Error())
		}
		s.cluster.SetUsed(used)
		if errors.Is(err, errUnmeasured) {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// Measured is the usage of one or several nodes that metrics.k8s.io reports.
type Measured struct {
	CPU    int64 // millicores
	Memory int64 // bytes
}

// UsedCPU returns the measured CPU beside the allocatable; nothing is used on a node that is not measured.
func (n *Node) UsedCPU() Usage {
	if n.Used == nil {
		return Usage{Allocatable: n.CPU.Allocatable}
	}
	return Usage{n.Used.CPU, n.CPU.Allocatable}
}

// UsedMemory returns the measured memory beside the allocatable; nothing is used on a node that is not measured.
func (n *Node) UsedMemory() Usage {
	if n.Used == nil {
		return Usage{Allocatable: n.Memory.Allocatable}
	}
	return Usage{n.Used.Memory, n.Memory.Allocatable}
}

// SetUsed sets the nodes' usage. Nodes that are not in the map are not measured. The caller must not change the map any more.
func (c *Cluster) SetUsed(used map[string]Measured) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.used = used
}

// measure adds a node's measured usage, unless it is nil.
func (t *Totals) measure(used *Measured) {
	if used == nil {
		return
	}
	if t.Used == nil {
		t.Used = &Measured{}
	}
	t.Used.CPU, t.Used.Memory = t.Used.CPU+used.CPU, t.Used.Memory+used.Memory
	t.Measured++
}
