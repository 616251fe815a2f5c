package watch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	metrics "k8s.io/metrics/pkg/apis/metrics/v1beta1"

	"gnnsched/cmd/internal/top/state"
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
func listUsed(ctx context.Context, cfg Config) (map[string]state.Measured, error) {
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
	used := make(map[string]state.Measured, len(list.Items))
	for i := range list.Items {
		u := list.Items[i].Usage
		used[list.Items[i].Name] = state.Measured{CPU: max(u.Cpu().MilliValue(), 0), Memory: max(u.Memory().Value(), 0)}
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
