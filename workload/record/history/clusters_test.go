package history

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/prometheus/common/model"
)

// nodesOf answers every query with series of kube_node_info.
type nodesOf []model.Metric

func (n nodesOf) Query(context.Context, string, time.Time) (out model.Vector, _ error) {
	for _, m := range n {
		out = append(out, &model.Sample{Metric: m.Clone(), Value: 1})
	}
	return out, nil
}

func (nodesOf) Range(context.Context, string, time.Time, time.Time, time.Duration) (model.Matrix, error) {
	return nil, errors.New("not asked")
}

func TestSeveralClusters(t *testing.T) {
	for name, c := range map[string]struct {
		nodes nodesOf
		label string // "": one cluster
	}{
		"the usual label":           {nodesOf{{"node": "a", "cluster": "east"}, {"node": "b", "cluster": "west"}}, "cluster"},
		"another label":             {nodesOf{{"node": "a", "site": "x", "system_uuid": "1"}, {"node": "a", "site": "y", "system_uuid": "2"}}, "site"},
		"prometheus":                {nodesOf{{"node": "a", "prometheus": "x", "internal_ip": "1"}, {"node": "a", "prometheus": "y", "internal_ip": "2"}}, "prometheus"},
		"one value":                 {nodesOf{{"node": "a", "cluster": "east"}, {"node": "b", "cluster": "east"}}, ""},
		"one node scraped twice":    {nodesOf{{"node": "a", "replica": "1", "system_uuid": "1"}, {"node": "a", "replica": "2", "system_uuid": "1"}}, ""},
		"labels of different nodes": {nodesOf{{"node": "a", "site": "x", "internal_ip": "1"}, {"node": "b", "site": "y", "internal_ip": "2"}}, ""},
	} {
		r := &reader{Config: Config{Ask: c.nodes}, gaps: newGaps()}
		err := r.apart(t.Context(), t0)
		var several SeveralClusters
		if errors.As(err, &several); several.Label != c.label || (err == nil) != (c.label == "") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestOnly(t *testing.T) {
	for query, want := range map[string]string{
		"group by (node) (kube_node_info)": `group by (node) (kube_node_info{cluster="a\"b"})`,
		`max by (container_name) (rate(container_cpu_usage_seconds_total{id="/"}[5m]))`: `max by (container_name) ` +
			`(rate(container_cpu_usage_seconds_total{cluster="a\"b",id="/"}[5m]))`,
		"timestamp(kube_node_labels)": `timestamp(kube_node_labels{cluster="a\"b"})`,
	} {
		if got := Only(nil, "cluster", `a"b`).(only).narrow(query); got != want {
			t.Errorf("%s: %s", query, got)
		}
	}
}
