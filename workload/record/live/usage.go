package live

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gnnsched/internal/cluster"
	"gnnsched/workload/record"
)

// measure takes samples until the context ends or the cluster refuses.
func (r *Recorder) measure(ctx context.Context) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	newest := times{}
	tick := time.NewTicker(r.cfg.Interval)
	defer tick.Stop()
	for {
		next := make(times, len(newest))
		if r.measureNodes(ctx, stop, newest, next) == nil {
			r.measurePods(ctx, stop, newest, next) //nolint:errcheck // was said
		}
		newest = next
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// times are when things were measured last: the cluster may answer with the same sample twice.
type times map[[2]string]int64

func (r *Recorder) measureNodes(ctx context.Context, stop func(), old, next times) error {
	list, err := r.cfg.Metrics.MetricsV1beta1().NodeMetricses().List(ctx, metav1.ListOptions{})
	if err := r.answered(metrics, "list", err, stop); err != nil {
		return err
	}
	for i := range list.Items {
		n := &list.Items[i]
		r.sample(record.Sample{Time: n.Timestamp.UnixMilli(), Name: n.Name}, []corev1.ResourceList{n.Usage}, old, next)
	}
	return nil
}

func (r *Recorder) measurePods(ctx context.Context, stop func(), old, next times) error {
	list, err := r.cfg.Metrics.MetricsV1beta1().PodMetricses(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err := r.answered(metrics, "list", err, stop); err != nil {
		return err
	}
	for i := range list.Items {
		p := &list.Items[i]
		var all []corev1.ResourceList
		for _, c := range p.Containers {
			all = append(all, c.Usage)
		}
		r.sample(record.Sample{Time: p.Timestamp.UnixMilli(), Namespace: p.Namespace, Name: p.Name}, all, old, next)
	}
	return nil
}

// sample adds up what was used, and gives it on unless it was given before.
func (r *Recorder) sample(s record.Sample, used []corev1.ResourceList, old, next times) {
	k := [2]string{s.Namespace, s.Name}
	next[k] = s.Time
	if old[k] == s.Time || s.Time <= 0 {
		return
	}
	for _, l := range used {
		s.MilliCPU += l.Cpu().MilliValue()
		s.Memory += l.Memory().Value()
	}
	s.MilliCPU, s.Memory = min(max(s.MilliCPU, 0), cluster.MaxMilliCPU), min(max(s.Memory, 0), cluster.MaxMemory)
	r.cfg.Sample(s)
}
