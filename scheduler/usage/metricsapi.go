package usage

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"
	"k8s.io/metrics/pkg/client/clientset/versioned"
	"k8s.io/utils/clock"

	"gnnsched/internal/cluster"
)

// metricsAPI asks metrics.k8s.io, which has CPU and memory.
type metricsAPI struct {
	client versioned.Interface
	clock  clock.PassiveClock
}

func newMetricsAPI(c *rest.Config, clk clock.PassiveClock) (*metricsAPI, error) {
	c = rest.CopyConfig(c)
	c.ContentType = "application/json" // not every server of this API has protobuf
	client, err := versioned.NewForConfig(c)
	if err != nil {
		return nil, fmt.Errorf("usage: client of %s: %w", MetricsAPISource, err)
	}
	return &metricsAPI{client, clk}, nil
}

// Measure implements source.
func (a *metricsAPI) Measure(ctx context.Context) (m measurement, err error) {
	nodes, nodesErr := a.client.MetricsV1beta1().NodeMetricses().List(ctx, metav1.ListOptions{})
	if nodesErr == nil {
		m.addNodes(nodes.Items, a.clock.Now())
	}
	pods, podsErr := a.client.MetricsV1beta1().PodMetricses(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if podsErr == nil {
		for i := range pods.Items {
			m.addPod(&pods.Items[i])
		}
	}
	return m, errors.Join(nodesErr, podsErr)
}

func (m *measurement) addNodes(nodes []metricsv1beta1.NodeMetrics, now time.Time) {
	// The clock of the nodes is not ours. The newest sample counts as of now, and the others are older by their difference from it.
	newest := time.Time{}
	for i := range nodes {
		if t := nodes[i].Timestamp.Time; t.After(newest) && t.Before(now.Add(clockError)) {
			newest = t
		}
	}
	if behind := now.Sub(newest); behind > clockError {
		newest = now // so old that it is not a matter of clocks
	}
	for i := range nodes {
		n := &nodes[i]
		names := []string{n.Name}
		m.Ages = append(m.Ages, nodeValue{names, newest.Sub(n.Timestamp.Time).Seconds()})
		for d, v := range amountsOf(n.Usage) {
			m.Nodes = append(m.Nodes, nodeSample{names, d, v})
		}
	}
}

// clockError is the accepted error of another clock.
const clockError = 90 * time.Second

func (m *measurement) addPod(p *metricsv1beta1.PodMetrics) {
	sum := map[cluster.Dimension]float64{}
	for i := range p.Containers {
		for d, v := range amountsOf(p.Containers[i].Usage) {
			sum[d] += v
		}
	}
	for d, v := range sum {
		m.Pods = append(m.Pods, podSample{p.Namespace, p.Name, d, v})
	}
}

func amountsOf(list corev1.ResourceList) map[cluster.Dimension]float64 {
	out := map[cluster.Dimension]float64{}
	if q, has := list[corev1.ResourceCPU]; has {
		out[cluster.UsedCPU] = float64(q.MilliValue())
	}
	if q, has := list[corev1.ResourceMemory]; has {
		out[cluster.UsedMemory] = float64(q.Value())
	}
	return out
}
