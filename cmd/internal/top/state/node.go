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
