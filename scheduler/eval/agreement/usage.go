package agreement

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"gnnsched/internal/exit"
	"gnnsched/scheduler/eval/testbed"
	"gnnsched/scheduler/sim"
	measured "gnnsched/scheduler/usage"
	"gnnsched/workload/usage"
)

// longest is how long an episode with usage may take. It is played in real time, since the sampler, the source of measured
// usage and the scheduler go by the clock.
const longest = time.Hour

// samplesApart is the time between two samples of what pods use, and between two measurements if the scenario says nothing.
const samplesApart = 10 * time.Second

// checkUsage returns an error if an episode would take longer than longest, or has batch jobs: on the cluster they do not end when
// they have done their work.
func (c Config) checkUsage(env *sim.Env) error {
	if c.Scenario.Usage == nil {
		return nil
	}
	plan := env.Plan()
	if len(plan) == 0 {
		return nil
	}
	if slices.ContainsFunc(plan, func(a sim.Arrival) bool { return a.Usage != nil && a.Usage.Work > 0 }) {
		return exit.New(exit.Usage, fmt.Errorf("scenario %s has batch jobs with work, which do not end by it on a simulated cluster", c.Scenario.Name), "leave --live out, or choose another scenario")
	}
	last := time.Duration(env.UsageAt(plan[len(plan)-1].At) * float64(time.Second))
	if last <= longest {
		return nil
	}
	return exit.New(exit.Usage, fmt.Errorf("scenario %s has usage, which a cluster plays in real time, and an episode takes %v; the most is %v", c.Scenario.Name, last.Round(time.Minute), longest),
		"lower usage.unit or turnover in a copy of the scenario (gnnsched eval --print-scenario NAME)")
}

// usageSource is where the profiles find measured usage: the cluster's own metrics.k8s.io.
func usageSource() *measured.Config {
	return &measured.Config{Source: measured.MetricsAPISource, Interval: metav1.Duration{Duration: 5 * time.Second}}
}

// createWorkloads creates an object for each usage model of the episode, which owns the pods with that model. The scheduler
// takes the pods of one owner for one workload, and the garbage collector deletes pods whose owner does not exist.
func createWorkloads(ctx context.Context, client kubernetes.Interface, plan []sim.Arrival) (map[*usage.Model]metav1.OwnerReference, error) {
	out := map[*usage.Model]metav1.OwnerReference{}
	for _, a := range plan {
		if _, known := out[a.Usage]; known || a.Usage == nil {
			continue
		}
		m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "workload-", Namespace: namespace}}
		made, err := client.CoreV1().ConfigMaps(namespace).Create(ctx, m, metav1.CreateOptions{})
		if err != nil {
			return nil, fmt.Errorf("create the owner of pods: %w", err)
		}
		out[a.Usage] = metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: made.Name, UID: made.UID, Controller: ptr.To(true)}
	}
	return out, nil
}

// player plays the usage of an episode on the cluster in real time, and measures it. All methods of a nil player do nothing.
type player struct {
	client kubernetes.Interface
	clock  clock.Clock
	env    *sim.Env
	nodes  []string        // as on the cluster
	offers []usage.Amounts // of the nodes
	owners map[*usage.Model]metav1.OwnerReference
	start  time.Time  // of the time after the fill; zero before
	tick   float64    // seconds between two measurements
	ticks  int        // measurements so far
	last   []counters // of the nodes, at the last measurement
	lastAt time.Time
	sum    totals
}

// counters holds what a node has used and lost since the cluster began. memory is its use now.
type counters struct {
	used usage.Amounts
	lost float64 // core-seconds
}

// totals are sums over time of what the scenario's nodes used.
type totals struct {
	seconds, nodeTime, hotTime, uneven, inUse float64
	cpu, capacity, lost                       float64 // core-seconds
}

// newPlayer returns nil for a scenario without usage.
func newPlayer(ctx context.Context, client kubernetes.Interface, env *sim.Env) (*player, error) {
	c := env.Config().Usage
	if c == nil {
		return nil, nil
	}
	p := &player{client: client, clock: clock.RealClock{}, env: env, tick: cmp.Or(c.Tick, samplesApart.Seconds())}
	for _, n := range env.Snapshot().Nodes {
		if n.Available() {
			p.nodes = append(p.nodes, testbed.NodeName(n.Name))
			offer := c.Limits().Amounts()
			offer[usage.CPU], offer[usage.Memory] = float64(n.Allocatable.MilliCPU)/1000, float64(n.Allocatable.Memory)
			p.offers = append(p.offers, offer)
		}
	}
	err := p.limit(ctx, c.Limits())
	if err != nil {
		return nil, err
	}
	if p.owners, err = createWorkloads(ctx, client, env.Plan()); err != nil {
		return nil, err
	}
	return p, p.sampled(ctx)
}

// limit tells the sampler what each node can do, as in the simulator.
func (p *player) limit(ctx context.Context, l usage.Limits) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{usage.LimitsAnnotation: usage.FormatLimits(l)}}})
	if err != nil {
		return err
	}
	for _, name := range p.nodes {
		if _, err := p.client.CoreV1().Nodes().Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			return fmt.Errorf("limit the network and disk of node %s: %w", name, err)
		}
	}
	return nil
}

// sampled waits until the cluster has sampled every node, which takes an interval after its start.
func (p *player) sampled(ctx context.Context) error {
	for deadline := p.clock.Now().Add(patience); ; {
		_, err := p.read(ctx)
		if err == nil || !p.clock.Now().Before(deadline) {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-p.clock.After(200 * time.Millisecond):
		}
	}
}

// describe gives a pod the usage model of its arrival, and its workload.
func (p *player) describe(pod *corev1.Pod, m *usage.Model) error {
	if p == nil || m == nil {
		return nil
	}
	text, err := usage.FormatAnnotation(m)
	if err != nil {
		return err
	}
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	pod.Annotations[usage.Annotation] = text
	pod.OwnerReferences = []metav1.OwnerReference{p.owners[m]}
	return nil
}

// follow waits until the cluster's time is that of the simulator, and measures in between.
func (p *player) follow(ctx context.Context) error {
	if p == nil || !p.env.Filled() {
		return nil
	}
	now := p.env.UsageAt(p.env.Now())
	if p.start.IsZero() {
		// The fill takes no time in the simulator, and the first measurement knows it.
		p.start = p.clock.Now().Add(2 * samplesApart)
		if err := errors.Join(p.until(ctx, 0), p.measure(ctx)); err != nil {
			return err
		}
	}
	for float64(p.ticks)*p.tick <= now {
		if err := p.until(ctx, float64(p.ticks)*p.tick); err != nil {
			return err
		}
		if err := p.measure(ctx); err != nil {
			return err
		}
	}
	return p.until(ctx, now)
}

// until waits until so many seconds have passed since the start.
func (p *player) until(ctx context.Context, seconds float64) error {
	at := p.start.Add(time.Duration(seconds * float64(time.Second)))
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-p.clock.After(at.Sub(p.clock.Now())):
		return nil
	}
}

// read reads the nodes' pages.
func (p *player) read(ctx context.Context) ([]counters, error) {
	out := make([]counters, len(p.nodes))
	for i, name := range p.nodes {
		page, err := p.client.CoreV1().RESTClient().Get().AbsPath("/api/v1/nodes/" + name + "/proxy/metrics/cadvisor").DoRaw(ctx)
		if err == nil {
			out[i], err = parsePage(string(page))
		}
		if err != nil {
			return nil, fmt.Errorf("measure what node %s uses: %w", name, err)
		}
	}
	return out, nil
}

// measure adds the time since the last measurement to the totals.
func (p *player) measure(ctx context.Context) error {
	p.ticks++
	at := p.clock.Now()
	now, err := p.read(ctx)
	if err != nil {
		return err
	}
	if p.last != nil {
		p.sum.add(p.offers, p.last, now, at.Sub(p.lastAt).Seconds())
	}
	p.last, p.lastAt = now, at
	return nil
}

// ofNode names the families with what a whole node uses.
var ofNode = map[string]usage.Dimension{
	"container_cpu_usage_seconds_total": usage.CPU, "container_memory_working_set_bytes": usage.Memory,
	"container_network_receive_bytes_total": usage.NetworkIn, "container_network_transmit_bytes_total": usage.NetworkOut,
	"container_fs_reads_bytes_total": usage.DiskRead, "container_fs_writes_bytes_total": usage.DiskWrite,
}

// parsePage reads a node's page in Prometheus' text format.
func parsePage(text string) (out counters, err error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		return out, err
	}
	for name, f := range families {
		for _, m := range f.Metric {
			for _, l := range m.Label {
				if l.GetName() != "id" || l.GetValue() != "/" {
					continue
				}
				v := m.GetCounter().GetValue() + m.GetGauge().GetValue()
				if name == "container_cpu_cfs_throttled_seconds_total" {
					out.lost = v
				} else if d, known := ofNode[name]; known {
					out.used[d] = v
				}
			}
		}
	}
	return out, nil
}

// hot is the fraction of a node's CPU, network or disk over which the node is hot, as in the simulator.
const hot = 0.8

// add adds a time. A rate may exceed what a node offers by rounding, and by the memory that pods do not share.
func (t *totals) add(offers []usage.Amounts, before, now []counters, seconds float64) {
	if seconds <= 0 {
		return
	}
	nodes := float64(len(offers))
	var sum, squares usage.Amounts
	for i, offer := range offers {
		hottest := 0.0
		for d, x := range now[i].used {
			if usage.Dimension(d) != usage.Memory {
				x = (x - before[i].used[d]) / seconds
			}
			if offer[d] == 0 || x == 0 {
				continue
			}
			x = min(x/offer[d], 1)
			sum[d] += x
			squares[d] += x * x
			if usage.Dimension(d) != usage.Memory {
				hottest = max(hottest, x)
			}
		}
		if hottest > hot {
			t.hotTime += seconds
		}
		t.cpu += now[i].used[usage.CPU] - before[i].used[usage.CPU]
		t.capacity += offer[usage.CPU] * seconds
		t.lost += now[i].lost - before[i].lost
	}
	inUse, uneven, dimensions := 0.0, 0.0, 0.0
	for d := range sum {
		if sum[d] > 0 {
			mean := sum[d] / nodes
			inUse, uneven, dimensions = inUse+mean, uneven+math.Sqrt(max(squares[d]/nodes-mean*mean, 0)), dimensions+1
		}
	}
	t.seconds += seconds
	t.nodeTime += nodes * seconds
	t.inUse += inUse / max(dimensions, 1) * seconds
	t.uneven += uneven / max(dimensions, 1) * seconds
}

// outcome returns what was measured; nil for a nil player.
func (p *player) outcome() *sim.UsageOutcome {
	if p == nil {
		return nil
	}
	t := &p.sum
	return &sim.UsageOutcome{
		Throttled: t.lost, ThrottledPart: t.lost / max(t.cpu+t.lost, 1e-9), BatchSlowdown: 1,
		Utilisation: t.cpu / max(t.capacity, 1e-9), InUse: t.inUse / max(t.seconds, 1e-9),
		HotTime: t.hotTime / max(t.nodeTime, 1e-9), Imbalance: t.uneven / max(t.seconds, 1e-9),
	}
}
