package history

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"
)

// SeveralClusters is the error of series that come from several clusters.
type SeveralClusters struct {
	Label  string
	Values []string
}

func (s SeveralClusters) Error() string {
	return fmt.Sprintf("Prometheus has the nodes of several clusters: the label %s has the values %q", s.Label, s.Values)
}

// clusterLabels are labels by which a Prometheus of several clusters tells them apart.
var clusterLabels = []model.LabelName{"cluster", "cluster_name", "cluster_id", "clustername", "k8s_cluster", "k8s_cluster_name",
	"kubernetes_cluster", "kube_cluster", "tenant_id"}

// machine are the labels of kube_node_info by which nodes of one name differ that are different machines.
var machine = []model.LabelName{"system_uuid", "provider_id", "internal_ip"}

// apart returns SeveralClusters if nodes at a time have different values of a cluster's label, or if one name stands for several machines;
// then any label that differs between those tells the clusters apart.
func (r *reader) apart(ctx context.Context, at time.Time) error {
	all, err := r.query(ctx, nodeInfo, nodeInfo, at)
	if err != nil {
		return err
	}
	values, first := map[model.LabelName][]string{}, map[model.LabelValue]model.Metric{}
	differ := map[model.LabelName]bool{}
	for _, s := range all {
		for label, v := range s.Metric {
			if !slices.Contains(values[label], string(v)) {
				values[label] = append(values[label], string(v))
			}
		}
		other, twice := first[s.Metric["node"]]
		if !twice {
			first[s.Metric["node"]] = s.Metric
		} else if slices.ContainsFunc(machine, func(l model.LabelName) bool { return differs(l, other, s.Metric) }) {
			for label := range s.Metric {
				differ[label] = differ[label] || differs(label, other, s.Metric)
			}
		}
	}
	others := slices.DeleteFunc(slices.Sorted(maps.Keys(differ)), func(l model.LabelName) bool {
		return !differ[l] || slices.Contains(machine, l) || strings.HasSuffix(string(l), "_version") ||
			slices.Contains([]model.LabelName{"os_image", "pod_cidr", "instance", "pod", "uid", "pod_ip", "host_ip"}, l)
	})
	for _, label := range append(slices.Clone(clusterLabels), others...) {
		if v := values[label]; len(v) > 1 {
			slices.Sort(v)
			return SeveralClusters{string(label), v}
		}
	}
	return nil
}

// differs reports whether both metrics have a label, with different values.
func differs(label model.LabelName, a, b model.Metric) bool {
	return a[label] != "" && b[label] != "" && a[label] != b[label]
}
