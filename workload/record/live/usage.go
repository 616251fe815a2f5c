package live

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/metrics/pkg/client/clientset/versioned"

	"gnnsched/internal/cluster"
	"gnnsched/workload/record"
)

// Source measures what nodes and pods use: MetricsAPI or Prometheus.
type Source interface {
	// measure gives one set of samples to the recorder. stop ends measuring.
	measure(ctx context.Context, r *Recorder, stop func())
}

// measure takes samples until the context ends or the cluster refuses.
func (r *Recorder) measure(ctx context.Context) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	tick := time.NewTicker(r.cfg.Interval)
	defer tick.Stop()
	for {
		r.cfg.Usage.measure(ctx, r, stop)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// MetricsAPI measures by metrics.k8s.io.
func MetricsAPI(client versioned.Interface) Source { return &metricsAPI{client: client} }

type metricsAPI struct {
	client versioned.Interface
	newest times
}

// times holds the last times of measurements: the cluster may answer with the same sample twice.
type times map[[2]string]int64

// measure implements Source.
func (m *metricsAPI) measure(ctx context.Context, r *Recorder, stop func()) {
	next := make(times, len(m.newest))
	if m.nodes(ctx, r, stop, next) == nil {
		m.pods(ctx, r, stop, next) //nolint:errcheck // was said
	}
	m.newest = next
}

func (m *metricsAPI) nodes(ctx context.Context, r *Recorder, stop func(), next times) error {
	list, err := m.client.MetricsV1beta1().NodeMetricses().List(ctx, metav1.ListOptions{})
	if err := r.answered(metrics, "list", err, stop); err != nil {
		return err
	}
	for i := range list.Items {
		n := &list.Items[i]
		m.sample(r, record.Sample{Time: n.Timestamp.UnixMilli(), Name: n.Name}, []corev1.ResourceList{n.Usage}, next)
	}
	return nil
}

func (m *metricsAPI) pods(ctx context.Context, r *Recorder, stop func(), next times) error {
	list, err := m.client.MetricsV1beta1().PodMetricses(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err := r.answered(metrics, "list", err, stop); err != nil {
		return err
	}
	for i := range list.Items {
		p := &list.Items[i]
		var all []corev1.ResourceList
		for _, c := range p.Containers {
			all = append(all, c.Usage)
		}
		m.sample(r, record.Sample{Time: p.Timestamp.UnixMilli(), Namespace: p.Namespace, Name: p.Name}, all, next)
	}
	return nil
}

// sample adds up what was used, and gives it on unless it was given before.
func (m *metricsAPI) sample(r *Recorder, s record.Sample, used []corev1.ResourceList, next times) {
	k := [2]string{s.Namespace, s.Name}
	next[k] = s.Time
	if m.newest[k] == s.Time || s.Time <= 0 {
		return
	}
	for _, l := range used {
		s.MilliCPU += l.Cpu().MilliValue()
		s.Memory += l.Memory().Value()
	}
	s.MilliCPU, s.Memory = min(max(s.MilliCPU, 0), cluster.MaxMilliCPU), min(max(s.Memory, 0), cluster.MaxMemory)
	r.cfg.Sample(s)
}
