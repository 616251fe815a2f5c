package usage

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"
	"unique"

	"github.com/rs/zerolog"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/kube"
	"gnnsched/workload/usage"
)

// snapshot is the use of every node and running pod at a moment. It does not change once published.
type snapshot struct {
	at       time.Time
	interval time.Duration
	nodes    []nodeSample // by name
	index    map[string]int
	pods     map[types.NamespacedName]*podSample
}

// node returns the sample of a node, or nil.
func (s *snapshot) node(name string) *nodeSample {
	if i, ok := s.index[name]; ok {
		return &s.nodes[i]
	}
	return nil
}

// sample holds a rate of use at the snapshot's time, and the total until then.
type sample struct {
	rate      usage.Amounts // cores, bytes, bytes per second
	total     usage.Amounts // integral of rate over time; of no meaning for memory
	throttled float64       // cores that it wants and does not get
	lost      float64       // integral of throttled: core-seconds
}

// advance adds seconds at the present rate to the counters.
func (s *sample) advance(seconds float64) {
	for d := range s.total {
		s.total[d] += s.rate[d] * seconds
	}
	s.lost += s.throttled * seconds
}

// plus returns the sum of two amounts.
func plus(a, b usage.Amounts) usage.Amounts {
	for d := range a {
		a[d] += b[d]
	}
	return a
}

type podSample struct {
	sample
	pod *pod
}

// nodeSample is a node with its pods. The node's counters have a sum of their own, so that they do not fall
// when a pod ends.
type nodeSample struct {
	sample
	node   *corev1.Node
	pods   []podSample  // by namespace and name
	plain  cluster.Node // the inputs of its power
	limits usage.Limits // of its annotation
	watts  float64      // that its machine draws
	joules float64      // integral of watts over time
}

// idle is the usage of a node without pods. It is not zero, because kubectl top and metrics-server treat a node with zero usage as not
// measured.
var idle = usage.Amounts{usage.CPU: 0.05, usage.Memory: 300 << 20}

// builder makes a snapshot from the one before it.
type builder struct {
	old      *snapshot // nil at first
	models   *models
	interval time.Duration
}

func (b *builder) build(nodes []*corev1.Node, pods []*corev1.Pod, now time.Time) *snapshot {
	if b.old == nil {
		b.old = &snapshot{at: now}
	}
	out := &snapshot{
		at: now, interval: b.interval, nodes: make([]nodeSample, len(nodes)),
		index: make(map[string]int, len(nodes)), pods: make(map[types.NamespacedName]*podSample, len(pods)),
	}
	nodes = slices.SortedFunc(slices.Values(nodes), func(a, b *corev1.Node) int { return cmp.Compare(a.Name, b.Name) })
	passed := b.passed(now)
	for i, n := range nodes {
		out.index[n.Name] = i
		out.nodes[i] = nodeSample{node: n}
		if was := b.old.node(n.Name); was != nil && was.node.UID == n.UID {
			out.nodes[i].sample, out.nodes[i].joules = was.sample, was.joules+was.watts*passed
			out.nodes[i].advance(passed)
		}
		out.nodes[i].plain, out.nodes[i].limits = b.plain(n)
	}
	for _, p := range pods {
		if n := out.node(p.Spec.NodeName); n != nil && p.Status.Phase == corev1.PodRunning {
			n.pods = append(n.pods, b.carry(p, passed))
		}
	}
	for i := range out.nodes {
		b.measure(&out.nodes[i], now)
		for j := range out.nodes[i].pods {
			p := &out.nodes[i].pods[j]
			out.pods[p.pod.key()] = p
		}
	}
	return out
}

// plain returns a node with the fields that its machine's power depends on (CPUs and annotation), and the limits of another annotation. A
// faulty annotation counts as none.
func (b *builder) plain(n *corev1.Node) (cluster.Node, usage.Limits) {
	if was := b.old.node(n.Name); was != nil && was.node == n {
		return was.plain, was.limits
	}
	model, _ := kube.Power(n)
	return cluster.Node{Power: model, Allocatable: cluster.Resources{MilliCPU: n.Status.Allocatable.Cpu().MilliValue()}}, b.models.limits(n)
}

// passed returns the seconds since the last snapshot; 0 if the clock was set back.
func (b *builder) passed(now time.Time) float64 { return max(now.Sub(b.old.at), 0).Seconds() }

// carry returns a pod with its counters, advanced at the last snapshot's rate.
func (b *builder) carry(p *corev1.Pod, passed float64) podSample {
	was := b.old.pods[types.NamespacedName{Namespace: p.Namespace, Name: p.Name}]
	if was == nil || was.pod.source.UID != p.UID {
		return podSample{pod: b.models.pod(p, nil)}
	}
	out := *was
	out.advance(passed)
	out.pod = b.models.pod(p, was.pod)
	return out
}

// measure sets the usage of the node's pods now, and of the node.
func (b *builder) measure(n *nodeSample, now time.Time) {
	slices.SortFunc(n.pods, func(a, b podSample) int {
		return cmp.Or(cmp.Compare(a.pod.source.Namespace, b.pod.source.Namespace), cmp.Compare(a.pod.source.Name, b.pod.source.Name))
	})
	demands, got := make([]usage.Demand, len(n.pods)), make([]usage.Amounts, len(n.pods))
	for i := range n.pods {
		demands[i] = n.pods[i].pod.demand(now)
	}
	usage.Share(n.capacity(), demands, got)
	n.rate, n.throttled = idle, 0
	for i := range n.pods {
		p := &n.pods[i]
		p.rate, p.throttled = got[i], max(demands[i].Want[usage.CPU]-got[i][usage.CPU], 0)
		b.begin(n, p, now)
		n.rate = plus(n.rate, p.rate)
		n.throttled += p.throttled
	}
	n.plain.Requested.Pods = int64(len(n.pods))
	n.watts = cluster.CPUDraw(&n.plain, 1000*n.rate[usage.CPU]/float64(max(n.plain.Allocatable.MilliCPU, 1)))
}

// begin counts the usage of a pod that started after the last snapshot.
func (b *builder) begin(n *nodeSample, p *podSample, now time.Time) {
	if was := b.old.pods[p.pod.key()]; was != nil && was.pod.source.UID == p.pod.source.UID {
		return
	}
	since := p.pod.start
	if since.Before(b.old.at) {
		since = b.old.at
	}
	p.advance(max(now.Sub(since), 0).Seconds())
	n.total, n.lost = plus(n.total, p.total), n.lost+p.lost
}

// capacity returns the amounts that the pods of a node share.
func (n *nodeSample) capacity() usage.Amounts {
	out := n.limits.Amounts()
	if cores := n.node.Status.Allocatable.Cpu().AsApproximateFloat64(); cores > 0 {
		out[usage.CPU] = max(cores-idle[usage.CPU], cores/2)
	}
	return out
}

// caches holds copies of the cluster's nodes and running pods, reduced to the fields that the sampler reads.
type caches struct {
	nodes     corelisters.NodeLister
	pods      corelisters.PodLister
	factories []informers.SharedInformerFactory
}

func watch(client kubernetes.Interface) *caches {
	nodes := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTransform(stripNode))
	pods := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTransform(stripPod),
		informers.WithTweakListOptions(func(o *metav1.ListOptions) {
			o.FieldSelector = "status.phase=" + string(corev1.PodRunning)
		}))
	return &caches{
		nodes: nodes.Core().V1().Nodes().Lister(), pods: pods.Core().V1().Pods().Lister(),
		factories: []informers.SharedInformerFactory{nodes, pods},
	}
}

// start fills the caches and follows the changes until ctx ends.
func (c *caches) start(ctx context.Context) error {
	for _, f := range c.factories {
		f.StartWithContext(ctx)
	}
	for _, f := range c.factories {
		if err := f.WaitForCacheSyncWithContext(ctx).AsError(); err != nil {
			return fmt.Errorf("wait for the nodes and pods: %w", err)
		}
	}
	return nil
}

// shutdown waits until all watches have ended. The context of start must have ended.
func (c *caches) shutdown() {
	for _, f := range c.factories {
		f.Shutdown()
	}
}

// stripNode keeps a node's name, labels, amounts, power and limits.
func stripNode(obj any) (any, error) {
	n, ok := obj.(*corev1.Node)
	if !ok {
		return obj, nil // the note about a deleted one
	}
	out := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: n.Name, UID: n.UID, ResourceVersion: n.ResourceVersion, Labels: n.Labels},
		Status:     corev1.NodeStatus{Capacity: amounts(n.Status.Capacity), Allocatable: amounts(n.Status.Allocatable)},
	}
	for _, name := range []string{kube.PowerAnnotation, usage.LimitsAnnotation} {
		if text, has := n.Annotations[name]; has {
			metav1.SetMetaDataAnnotation(&out.ObjectMeta, name, text)
		}
	}
	return out, nil
}

func amounts(l corev1.ResourceList) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: *l.Cpu(), corev1.ResourceMemory: *l.Memory()}
}

// stripPod keeps a pod's identity, its usage model and its containers' requests. Equal annotations, which all pods of a Deployment have,
// share their memory.
func stripPod(obj any) (any, error) {
	p, ok := obj.(*corev1.Pod)
	if !ok {
		return obj, nil
	}
	out := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: p.Name, Namespace: p.Namespace, UID: p.UID, ResourceVersion: p.ResourceVersion,
			Labels: p.Labels, CreationTimestamp: p.CreationTimestamp,
		},
		Spec: corev1.PodSpec{
			NodeName: p.Spec.NodeName, Resources: p.Spec.Resources, Overhead: p.Spec.Overhead, Containers: lasting(p),
		},
		Status: corev1.PodStatus{Phase: p.Status.Phase, StartTime: p.Status.StartTime},
	}
	if text, ok := p.Annotations[usage.Annotation]; ok {
		out.Annotations = map[string]string{usage.Annotation: unique.Make(text).Value()}
	}
	return out, nil
}

// lasting returns the containers that keep running, native sidecars among them.
func lasting(p *corev1.Pod) (out []corev1.Container) {
	for c := range kube.Lasting(p) {
		out = append(out, corev1.Container{Name: c.Name, Resources: c.Resources})
	}
	return out
}

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
