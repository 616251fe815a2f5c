package usage

import (
	"cmp"
	"time"

	"github.com/rs/zerolog"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"gnnsched/internal/cluster/kube"
	"gnnsched/workload/usage"
)

// pod holds the values that the sampler derives from a pod once, until the pod changes.
type pod struct {
	source     *corev1.Pod // the stripped object that this was made from
	model      *usage.Model
	seed       uint64
	start      time.Time
	request    float64 // cores
	limit      float64 // cores; 0: none
	containers []container
}

// container is a container with its shares of the pod's usage. A pod's model does not know containers. CPU, network and disk are divided by
// requested CPU, and memory by requested memory.
type container struct {
	name        string
	cpu, memory float64 // shares of the pod's; their sums over a pod are 1
}

func (p *pod) key() types.NamespacedName {
	return types.NamespacedName{Namespace: p.source.Namespace, Name: p.source.Name}
}

// demand returns the pod's demand now.
func (p *pod) demand(now time.Time) usage.Demand {
	seconds := float64(now.UnixMilli()) / 1000
	return usage.Demand{Want: p.model.At(p.seed, seconds, now.Sub(p.start).Seconds()), Request: p.request, Limit: p.limit}
}

// newPod translates a pod with its model. was, if not nil, is the pod before it changed: its containers keep
// their shares, because their counters would fall otherwise.
func newPod(p *corev1.Pod, model *usage.Model, was *pod) *pod {
	out := &pod{
		source: p, model: model, seed: usage.Seed(p.Namespace, p.Name), start: p.CreationTimestamp.Time,
		request: float64(kube.Requests(p).MilliCPU) / 1000, limit: limitOf(p),
	}
	if p.Status.StartTime != nil {
		out.start = p.Status.StartTime.Time
	}
	out.containers = shares(p)
	if was != nil && len(was.containers) == len(out.containers) {
		out.containers = was.containers
	}
	return out
}

// limitOf returns the cores that a pod may use at most, or 0 if one of its containers has no limit.
func limitOf(p *corev1.Pod) float64 {
	if r := p.Spec.Resources; r != nil && !r.Limits.Cpu().IsZero() {
		return r.Limits.Cpu().AsApproximateFloat64()
	}
	var sum float64
	for c := range kube.Lasting(p) {
		limit := c.Resources.Limits.Cpu()
		if limit.IsZero() {
			return 0
		}
		sum += limit.AsApproximateFloat64()
	}
	return sum
}

// shares divides a pod among its containers by their requests, and equally if none requests anything.
func shares(p *corev1.Pod) []container {
	var out []container
	var cpu, memory float64
	for of := range kube.Lasting(p) {
		r := of.Resources.Requests
		c := container{of.Name, r.Cpu().AsApproximateFloat64(), r.Memory().AsApproximateFloat64()}
		cpu, memory = cpu+c.cpu, memory+c.memory
		out = append(out, c)
	}
	for i := range out {
		out[i].cpu = part(out[i].cpu, cpu, len(out))
		out[i].memory = part(out[i].memory, memory, len(out))
	}
	return out
}

func part(x, sum float64, n int) float64 {
	if sum == 0 {
		return 1 / float64(n)
	}
	return x / sum
}

// The usage of a pod without a model.
const (
	defaultShare  = 0.5      // of the CPU and memory that it requests
	defaultCPU    = 0.01     // cores, if it requests none
	defaultMemory = 32 << 20 // bytes, if it requests none
)

// defaultModel is the model of a pod without one.
func defaultModel(p *corev1.Pod) *usage.Model {
	r := kube.Requests(p)
	cpu, memory := defaultShare*float64(r.MilliCPU)/1000, defaultShare*float64(r.Memory)
	return &usage.Model{Curves: [usage.Dimensions]usage.Curve{
		usage.CPU: usage.Constant(cmp.Or(cpu, defaultCPU)), usage.Memory: usage.Constant(cmp.Or(memory, defaultMemory)),
	}}
}

// models parses annotations. Pods with equal annotations share one model. It forgets annotations that no
// pod has any more.
type models struct {
	log      zerolog.Logger
	old, now map[string]*usage.Model // by annotation; nil: the annotation is wrong
	faults   int                     // wrong annotations of pods found in this sample
	first    error
	where    types.NamespacedName
}

// limits returns the limits in the annotation of a node that is new or has changed; none if the annotation is wrong.
func (m *models) limits(n *corev1.Node) usage.Limits {
	text, has := n.Annotations[usage.LimitsAnnotation]
	if !has {
		return usage.Limits{}
	}
	out, err := usage.ParseLimits(text)
	if err != nil {
		m.log.Warn().Err(err).Str("node", n.Name).Msg("a node's annotation is wrong; its network and disk are not limited")
	}
	return out
}

// begin begins a sample.
func (m *models) begin() {
	m.old, m.now = m.now, make(map[string]*usage.Model, len(m.now))
	m.faults, m.first = 0, nil
}

// end ends a sample. A wrong annotation is reported once, by one line for all of a sample.
func (m *models) end() {
	if m.faults > 0 {
		m.log.Warn().Err(m.first).Str("pod", m.where.String()).Int("annotations", m.faults).
			Msg("a pod's usage annotation is wrong; the pod uses half of what it requests")
	}
	m.old = nil
}

// pod translates a pod, or returns was if the pod has not changed since.
func (m *models) pod(p *corev1.Pod, was *pod) *pod {
	text, annotated := p.Annotations[usage.Annotation]
	var model *usage.Model
	if annotated {
		model = m.parsed(text, p)
	}
	switch {
	case was != nil && was.source == p:
		return was
	case model == nil:
		model = defaultModel(p)
	}
	return newPod(p, model, was)
}

// parsed returns the model of an annotation, or nil if it is wrong.
func (m *models) parsed(text string, p *corev1.Pod) *usage.Model {
	if known, ok := m.now[text]; ok {
		return known
	}
	model, ok := m.old[text]
	if !ok {
		var err error
		if model, err = usage.ParseAnnotation(text); err != nil {
			model = nil
			if m.faults++; m.faults == 1 {
				m.first, m.where = err, types.NamespacedName{Namespace: p.Namespace, Name: p.Name}
			}
		}
	}
	m.now[text] = model
	return model
}
