package live

import (
	"cmp"
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/metrics/pkg/client/clientset/versioned"

	"gnnsched/internal/cluster"
	"gnnsched/workload/record"
	"gnnsched/workload/record/history"
)

// patience limits the time of all queries of one measurement.
const patience = 30 * time.Second

// Prometheus measures by the kubelets' series that a Prometheus server scrapes.
type Prometheus struct {
	Ask      history.Asker
	Now      func() time.Time
	Patience time.Duration // for all queries of one measurement; 0 for 30 seconds
}

// Trouble counts a Prometheus' missing answers.
type Trouble struct {
	Failed          int // measurements
	Invalid         int // values of pods and nodes that were negative or no finite numbers
	Unknown         int // values of pods and nodes that the cluster does not have
	NoPods, NoNodes int // measurements without a value of any pod or any node of the cluster
}

// measure implements Source. It waits until the nodes and pods of the cluster are known.
func (p Prometheus) measure(ctx context.Context, r *Recorder, stop func()) {
	select {
	case <-ctx.Done():
		return
	case <-r.listed:
	}
	try, cancel := context.WithTimeout(ctx, cmp.Or(p.Patience, patience))
	defer cancel()
	got, err := history.Measure(try, p.Ask, p.Now(), r.cfg.Follower.Present())
	if ctx.Err() != nil { // recording ends
		return
	}
	r.answered(prometheus, "ask", err, stop) //nolint:errcheck // it is counted
	if err != nil {
		r.count(Trouble{Failed: 1}, "")
		return
	}
	trouble := Trouble{Invalid: got.Invalid, Unknown: len(got.Unknown), NoPods: 1, NoNodes: 1}
	for _, s := range got.Samples {
		if s.Namespace == "" {
			trouble.NoNodes = 0
		} else {
			trouble.NoPods = 0
		}
		r.cfg.Sample(s)
	}
	unknown := ""
	for name := range got.Unknown {
		if unknown == "" || name < unknown {
			unknown = name
		}
	}
	r.count(trouble, unknown)
}

// count adds to the counts, and reports the first event of each kind. unknown names one object that the cluster does not have.
func (r *Recorder) count(t Trouble, unknown string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if t.Invalid > 0 && r.trouble.Invalid == 0 {
		r.cfg.Warn("Prometheus answers with usage that is negative or no finite number; the record will lack the usage of these pods and " +
			"nodes at these times")
	}
	if t.Unknown > 0 && r.trouble.Unknown == 0 {
		r.cfg.Warn(fmt.Sprintf("Prometheus has usage of the %s, which the cluster does not have: it has just ended, "+
			"or Prometheus scrapes another cluster; such usage is left out", unknown))
	}
	r.trouble.Failed += t.Failed
	r.trouble.Invalid += t.Invalid
	r.trouble.Unknown += t.Unknown
	r.trouble.NoPods += t.NoPods
	r.trouble.NoNodes += t.NoNodes
}

// Trouble returns what Prometheus did not give so far.
func (r *Recorder) Trouble() Trouble {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.trouble
}

// lacks lists what the record lacks because of it.
func (t Trouble) lacks() (out []string) {
	if t.Failed > 0 {
		out = append(out, fmt.Sprintf("usage at %d times, at which Prometheus did not answer", t.Failed))
	}
	if t.Invalid > 0 {
		out = append(out, fmt.Sprintf("%d values of usage that were negative or no finite numbers", t.Invalid))
	}
	if t.NoPods > 0 {
		out = append(out, fmt.Sprintf("usage of pods at %d times, at which Prometheus had none of the cluster's pods", t.NoPods))
	}
	if t.NoNodes > 0 {
		out = append(out, fmt.Sprintf("usage of nodes at %d times, at which Prometheus had none of the cluster's nodes", t.NoNodes))
	}
	return out
}

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
