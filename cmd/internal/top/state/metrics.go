package state

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	metrics "k8s.io/metrics/pkg/apis/metrics/v1beta1"
)

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
