package agreement

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
	"gnnsched/scheduler/sim/meter"
	"gnnsched/workload/usage"
)

// longest limits an episode with usage. It is played in real time, since the sampler, the source of measured usage and the scheduler use
// the clock.
const longest = time.Hour

// samplesApart is the time between two samples of what pods use, and between two measurements if the scenario says nothing.
const samplesApart = 10 * time.Second

// checkUsage returns an error if an episode would take longer than longest.
func (c Config) checkUsage(env *sim.Env) error {
	if c.Scenario.Usage == nil {
		return nil
	}
	plan := env.Plan()
	if len(plan) == 0 {
		return nil
	}
	last := time.Duration(env.UsageAt(plan[len(plan)-1].At) * float64(time.Second))
	if last <= longest {
		return nil
	}
	return exit.New(exit.Usage, fmt.Errorf("scenario %s has usage, which a cluster plays in real time, "+
		"and an episode takes %v; the most is %v", c.Scenario.Name, last.Round(time.Minute), longest),
		"lower usage.unit or turnover in a copy of the scenario (gnnsched eval --print-scenario NAME)")
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
	jobs   map[string]bool // names of pods with work
	start  time.Time       // of the time after the fill; zero before
	tick   float64         // seconds between two measurements
	ticks  int             // measurements so far
	last   []counters      // of the nodes, at the last measurement
	lastAt time.Time
	sum    meter.Totals
}

// counters holds a node's use and losses since the cluster began. memory is its present use.
type counters struct {
	used usage.Amounts
	lost float64            // core-seconds
	jobs map[string]seconds // batch jobs' part of them, by pod
}

// seconds holds core-seconds that a pod has got, and that it wanted and did not get.
type seconds struct{ got, lost float64 }

// newPlayer returns nil for a scenario without usage.
func newPlayer(ctx context.Context, client kubernetes.Interface, env *sim.Env) (*player, error) {
	c := env.Config().Usage
	if c == nil {
		return nil, nil
	}
	p := &player{client: client, clock: clock.RealClock{}, env: env, jobs: map[string]bool{}, tick: cmp.Or(c.Tick, samplesApart.Seconds())}
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

// limit tells the sampler each node's limits, as in the simulator.
func (p *player) limit(ctx context.Context, l usage.Limits) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"annotations": map[string]string{usage.LimitsAnnotation: usage.FormatLimits(l)},
	}})
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
	for deadline := p.clock.Now().Add(testbed.Patience); ; {
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
	if m.Work > 0 {
		p.jobs[pod.Name] = true
	}
	return nil
}

// follow waits until the cluster's time reaches the simulator's, and measures in between.
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

// until waits until the given seconds have passed since the start.
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
			out[i], err = parsePage(string(page), p.jobs)
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
		p.add(p.last, now, at.Sub(p.lastAt).Seconds())
	}
	p.last, p.lastAt = now, at
	return nil
}

// ofNode names the families with the use of a whole node.
var ofNode = map[string]usage.Dimension{
	cpuFamily: usage.CPU, "container_memory_working_set_bytes": usage.Memory,
	"container_network_receive_bytes_total": usage.NetworkIn, "container_network_transmit_bytes_total": usage.NetworkOut,
	"container_fs_reads_bytes_total": usage.DiskRead, "container_fs_writes_bytes_total": usage.DiskWrite,
}

// The families with the used core-seconds, and with the wanted but not given ones.
const cpuFamily, lostFamily = "container_cpu_usage_seconds_total", "container_cpu_cfs_throttled_seconds_total"

// parsePage reads a node's page in Prometheus' text format. jobs are the names of the batch jobs.
func parsePage(text string, jobs map[string]bool) (out counters, err error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		return out, err
	}
	out.jobs = map[string]seconds{}
	for name, f := range families {
		for _, m := range f.Metric {
			v := m.GetCounter().GetValue() + m.GetGauge().GetValue()
			for _, l := range m.Label {
				switch d, known := ofNode[name]; {
				case l.GetName() == "id" && l.GetValue() == "/" && name == lostFamily:
					out.lost = v
				case l.GetName() == "id" && l.GetValue() == "/" && known:
					out.used[d] = v
				case l.GetName() == "pod" && jobs[l.GetValue()]:
					out.addJob(l.GetValue(), name, v)
				}
			}
		}
	}
	return out, nil
}

// addJob adds a counter of a batch job's container.
func (c *counters) addJob(pod, family string, v float64) {
	s := c.jobs[pod]
	switch family {
	case cpuFamily:
		s.got += v
	case lostFamily:
		s.lost += v
	}
	c.jobs[pod] = s
}

// add adds a time. A rate may exceed a node's capacity by rounding, and by the memory that pods do not share.
func (p *player) add(before, now []counters, passed float64) {
	if passed <= 0 {
		return
	}
	var spread meter.Spread
	for i, offer := range p.offers {
		var used usage.Amounts
		for d, x := range now[i].used {
			if usage.Dimension(d) != usage.Memory {
				x = (x - before[i].used[d]) / passed
			}
			used[d] = min(x, offer[d])
		}
		p.sum.Node(&spread, &used, &offer, passed)
		cpu, jobs := now[i].used[usage.CPU]-before[i].used[usage.CPU], now[i].jobsSince(before[i])
		p.sum.CPU += cpu
		p.sum.Capacity += offer[usage.CPU] * passed
		p.sum.BatchGot += jobs.got
		p.sum.BatchWanted += jobs.got + jobs.lost
		lost := max(now[i].lost-before[i].lost-jobs.lost, 0) // by services
		p.sum.Throttled += lost
		p.sum.Wanted += max(cpu-jobs.got, 0) + lost
	}
	p.sum.End(&spread, passed)
}

func (s seconds) plus(o seconds) seconds { return seconds{s.got + o.got, s.lost + o.lost} }

// jobsSince returns the core-seconds that batch jobs have got and lost since an earlier measurement. It lacks the last core-seconds of jobs
// that have ended.
func (c counters) jobsSince(before counters) (out seconds) {
	for pod, now := range c.jobs {
		was := before.jobs[pod]
		out = out.plus(seconds{now.got - was.got, now.lost - was.lost})
	}
	return out
}

// outcome returns what was measured; nil for a nil player.
func (p *player) outcome() *sim.UsageOutcome {
	if p == nil {
		return nil
	}
	return sim.UsageOf(p.sum)
}
