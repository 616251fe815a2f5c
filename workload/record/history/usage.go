package history

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"

	"gnnsched/internal/cluster"
	"gnnsched/internal/each"
	"gnnsched/internal/promapi"
	"gnnsched/workload/record"
)

// ask asks for a vector. series is for errors. Samples without a valid value are left out and counted.
func (r *reader) ask(ctx context.Context, series, query string, at time.Time) (out model.Vector, err error) {
	err = r.again(ctx, series, func(ctx context.Context) error {
		out, err = r.Ask.Query(ctx, query, at)
		return err
	})
	asked := len(out)
	out = slices.DeleteFunc(out, func(s *model.Sample) bool { return s.Histogram != nil || !valid(s.Value) })
	r.gaps.invalid[series] += asked - len(out)
	return out, err
}

// query asks for a vector whose samples have the labels that the exporter gave them.
func (r *reader) query(ctx context.Context, series, query string, at time.Time) (model.Vector, error) {
	out, err := r.ask(ctx, series, query, at)
	return merged(out), err
}

// ranged asks for measurements within a chunk. A measurement at its end belongs to the next one.
func (r *reader) ranged(ctx context.Context, series, query string, from, to time.Time) (out model.Matrix, err error) {
	err = r.again(ctx, series, func(ctx context.Context) error {
		out, err = r.Ask.Range(ctx, query, from, to.Add(-time.Millisecond), r.Usage)
		return err
	})
	return out, err
}

// last asks for the last values of a series within the chunk, one for each of the labels.
func (r *reader) last(ctx context.Context, series, by string, at time.Time) (model.Vector, error) {
	return r.query(ctx, series, fmt.Sprintf("max by (%s) (last_over_time(%s[%s]))", widened(by), series, r.window), at)
}

// history asks for the series within the chunk: one for each value of the labels, or with all labels if by is empty. A value is the time of
// the series' last scrape. Later scrapes come later, so that of several series of one object the newest wins.
func (r *reader) history(ctx context.Context, series, by string, at time.Time) (model.Vector, error) {
	all, times := fmt.Sprintf("last_over_time(%s[%s])", series, r.window),
		fmt.Sprintf("max_over_time(timestamp(%s)[%s:30s])", series, r.window)
	if by != "" {
		all, times = fmt.Sprintf("max by (%s) (%s)", widened(by), all), fmt.Sprintf("max by (%s) (%s)", widened(by), times)
	}
	out, err := r.ask(ctx, series, all, at)
	if err != nil || len(out) == 0 {
		return nil, err
	}
	stamps, err := r.ask(ctx, series, times, at)
	if err != nil {
		return nil, err
	}
	// A series that lived for less than a step may have no time. It counts as older than the others.
	scraped := make(map[string]model.SampleValue, len(stamps))
	for _, s := range stamps {
		scraped[s.Metric.String()] = s.Value
	}
	for _, s := range out {
		delete(s.Metric, model.MetricNameLabel)
		s.Value = scraped[s.Metric.String()]
	}
	out = merged(out)
	newestLast(out)
	return out, nil
}

// newestLast sorts by the values, which are times, and then by the labels.
func newestLast(all model.Vector) {
	slices.SortFunc(all, func(a, b *model.Sample) int {
		return cmp.Or(cmp.Compare(a.Value, b.Value), cmp.Compare(a.Metric.String(), b.Metric.String()))
	})
}

// own are the labels that identify objects and that a target may have, too. Unless a job honours the exporter's labels, Prometheus renames
// them to exported_pod and so on, and pod is the target's.
var own = []model.LabelName{"namespace", "pod", "uid", "container", "node"}

const exported = "exported_"

// job is the label that distinguishes series of two scrape configurations.
const job = "job"

// widened adds to a list of labels those under which Prometheus may have put them, and the job.
func widened(by string) string {
	out := by
	for label := range strings.SplitSeq(by, ",") {
		for _, l := range own {
			if label == string(l) {
				out += "," + exported + label
			}
		}
	}
	return out + "," + job
}

// restore gives metrics the labels that their exporter gave them. If one metric of a job has a renamed label, the job's metrics without it
// had none at the exporter: a pod without a node has the target's node.
func restore(all []model.Metric) {
	type label struct{ job, name model.LabelValue }
	renamed := map[label]bool{}
	for _, m := range all {
		for _, l := range own {
			if _, ok := m[exported+l]; ok {
				renamed[label{m[job], model.LabelValue(l)}] = true
			}
		}
	}
	for _, m := range all {
		for _, l := range own {
			if !renamed[label{m[job], model.LabelValue(l)}] {
				continue
			}
			if m[l] = m[exported+l]; m[l] == "" {
				delete(m, l)
			}
			delete(m, exported+l)
		}
		delete(m, job)
	}
}

// merged returns the samples with the labels of their exporter. Of several with the same labels, the largest value counts.
func merged(all model.Vector) model.Vector {
	metrics := each.Map(all, func(s *model.Sample) model.Metric { return s.Metric })
	restore(metrics)
	out, at := all[:0], make(map[model.Fingerprint]int, len(all))
	for _, s := range all {
		key := s.Metric.Fingerprint()
		if i, twice := at[key]; twice {
			out[i].Value = max(out[i].Value, s.Value)
			continue
		}
		at[key] = len(out)
		out = append(out, s)
	}
	return out
}

// valid reports whether a value is a finite number and not negative.
func valid(v model.SampleValue) bool { return v >= 0 && !math.IsInf(float64(v), 1) }

// The series of usage.
const (
	cpuUsage    = "container_cpu_usage_seconds_total"
	memoryUsage = "container_memory_working_set_bytes"
)

// Known holds the pods and nodes of the cluster.
type Known interface {
	// Pod reports whether there is a pod of this name.
	Pod(namespace, name string) bool
	// Node returns the name of the node with one of the names or addresses; "" if there is none.
	Node(names []string) string
}

// used are the queries of what pods or nodes use. The kubelets may be scraped by several jobs, and a cgroup may be shown twice, so
// the largest series of a container or a node counts.
type used struct {
	what        string
	cpu, memory string
	// of returns the place that a series describes, or a zero place if it does not count, and a name for errors. part is the container.
	of func(m model.Metric, k Known) (p place, part, name string)
}

// place is a pod, or a node, which has no namespace.
type place struct{ namespace, name string }

// usageQueries are the queries of pods and of nodes. Kubernetes before 1.16 has pod_name and container_name.
var usageQueries = []used{{
	what: "pods", of: podOf,
	cpu:    maxOf(containerLabels, cpuUsage, "5m", `container!=""`, `exported_container!=""`, `container_name!=""`),
	memory: maxOf(containerLabels, memoryUsage, "", `container!=""`, `exported_container!=""`, `container_name!=""`),
}, {
	what: "nodes", of: nodeOf,
	cpu:    maxOf(machineLabels, cpuUsage, "5m", `id="/"`),
	memory: maxOf(machineLabels, memoryUsage, "", `id="/"`),
}}

const (
	containerLabels = "namespace,pod,container,pod_name,container_name"
	machineLabels   = "node,node_name,kubernetes_node,nodename,exported_instance,instance"
)

// maxOf returns a query for the largest series, or rate over a window, by some labels.
func maxOf(by, series, window string, matches ...string) (query string) {
	for i, match := range matches {
		one := fmt.Sprintf("%s{%s}", series, match)
		if window != "" {
			one = fmt.Sprintf("rate(%s[%s])", one, window)
		}
		if i > 0 {
			one = " or " + one
		}
		query += one
	}
	return fmt.Sprintf("max by (%s) (%s)", widened(by), query)
}

func podOf(m model.Metric, k Known) (p place, part, name string) {
	p = place{string(m["namespace"]), string(cmp.Or(m["pod"], m["pod_name"]))}
	part = string(cmp.Or(m["container"], m["container_name"]))
	if part == "" || p.name == "" { // a cgroup around containers
		return place{}, "", ""
	}
	name = "pod " + p.namespace + "/" + p.name
	if !k.Pod(p.namespace, p.name) {
		p = place{}
	}
	return p, part, name
}

func nodeOf(m model.Metric, k Known) (p place, part, name string) {
	names := promapi.NodeNames(m)
	if len(names) == 0 {
		names = []string{"without a label of its node"}
	}
	return place{name: k.Node(names)}, "", "node " + names[0]
}

// Measured holds the usage of pods and nodes.
type Measured struct {
	Samples []record.Sample
	Invalid int             // values that Samples lacks, because they or a part of theirs were negative or no finite number
	Single  int             // values that Samples lacks, because CPU or memory was measured alone
	Unknown map[string]bool // names of pods and nodes that Samples lacks, because the cluster does not have them
}

func (m *Measured) add(o Measured) {
	m.Samples = append(m.Samples, o.Samples...)
	m.Invalid += o.Invalid
	m.Single += o.Single
	if m.Unknown == nil {
		m.Unknown = map[string]bool{}
	}
	maps.Copy(m.Unknown, o.Unknown)
}

// moment is a place at a time, in milliseconds since 1970.
type moment struct {
	at int64
	place
}

// sums returns the values of places: the sum of their parts. A place with an invalid part is NaN. unknown takes the names of series
// whose pods or nodes the cluster does not have.
func (q used) sums(all model.Matrix, k Known, unknown map[string]bool) map[moment]float64 {
	metrics := each.Map(all, func(s *model.SampleStream) model.Metric { return s.Metric })
	restore(metrics)
	type component struct {
		moment
		part string
	}
	parts := map[component]float64{}
	for _, s := range all {
		p, part, name := q.of(s.Metric, k)
		if p == (place{}) {
			if name != "" {
				unknown[name] = true
			}
			continue
		}
		for _, v := range s.Values {
			at := component{moment{int64(v.Timestamp), p}, part}
			x, before := float64(v.Value), parts[at]
			if !valid(v.Value) {
				x = math.NaN()
			}
			if _, twice := parts[at]; !twice || math.IsNaN(before) || x > before {
				parts[at] = x
			}
		}
	}
	out := make(map[moment]float64, len(parts))
	for at, v := range parts {
		out[at.moment] += v
	}
	return out
}

// join makes samples of CPU and memory. A value without the other one is left out.
func (q used) join(cpu, memory model.Matrix, k Known) Measured {
	m := Measured{Unknown: map[string]bool{}}
	cores, bytes := q.sums(cpu, k, m.Unknown), q.sums(memory, k, m.Unknown)
	for at, c := range cores {
		b, both := bytes[at]
		switch {
		case math.IsNaN(c) || math.IsNaN(b):
			m.Invalid++
		case !both:
			m.Single++
		case at.at > 0:
			m.Samples = append(m.Samples, record.Sample{Time: at.at, Namespace: at.namespace, Name: at.name,
				MilliCPU: amount(c*1000, cluster.MaxMilliCPU), Memory: amount(b, cluster.MaxMemory)})
		}
	}
	for at, b := range bytes {
		if _, both := cores[at]; !both {
			if math.IsNaN(b) {
				m.Invalid++
			} else {
				m.Single++
			}
		}
	}
	slices.SortFunc(m.Samples, func(a, b record.Sample) int {
		return cmp.Or(cmp.Compare(a.Time, b.Time), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return m
}

// readUsage reads what pods and nodes used.
func (r *reader) readUsage(ctx context.Context, from, to time.Time) error {
	for _, q := range usageQueries {
		cpu, err := r.ranged(ctx, cpuUsage, q.cpu, from, to)
		if err != nil {
			return err
		}
		memory, err := r.ranged(ctx, memoryUsage, q.memory, from, to)
		if err != nil {
			return err
		}
		m := q.join(cpu, memory, r)
		r.rows.samples = append(r.rows.samples, m.Samples...)
		if len(r.named) > 0 { // otherwise kube-state-metrics was not scraped for pods
			r.gaps.used(q.what, int((to.Sub(from)+r.Usage-1)/r.Usage), m)
		}
	}
	return nil
}

// Pod implements Known: pods of this chunk and of the one before, as a rate outlives its pod.
func (r *reader) Pod(namespace, name string) bool {
	key := namespace + "/" + name
	return len(r.named[key]) > 0 || r.before[key]
}

// Node implements Known.
func (r *reader) Node(names []string) string {
	for _, name := range names {
		if r.gaps.nodes[name] {
			return name
		}
		if at := r.addresses[name]; at != "" {
			return at
		}
	}
	return ""
}

// Measure asks what pods and nodes use at a time, which all samples get. No usage of any pod or node is an error.
func Measure(ctx context.Context, ask Asker, at time.Time, k Known) (m Measured, err error) {
	for _, q := range usageQueries {
		cpu, err := ask.Query(ctx, q.cpu, at)
		if err != nil {
			return m, fmt.Errorf("%s: %w", cpuUsage, err)
		}
		memory, err := ask.Query(ctx, q.memory, at)
		if err != nil {
			return m, fmt.Errorf("%s: %w", memoryUsage, err)
		}
		m.add(q.join(atOnce(cpu, at), atOnce(memory, at), k))
	}
	if len(m.Samples)+m.Invalid+m.Single+len(m.Unknown) == 0 {
		return m, fmt.Errorf("Prometheus has no series %s and %s", cpuUsage, memoryUsage)
	}
	return m, nil
}

// atOnce returns a vector as series of one value at a time.
func atOnce(v model.Vector, at time.Time) model.Matrix {
	out := make(model.Matrix, len(v))
	for i, s := range v {
		value := s.Value
		if s.Histogram != nil {
			value = model.SampleValue(math.NaN())
		}
		pair := model.SamplePair{Timestamp: model.TimeFromUnixNano(at.UnixNano()), Value: value}
		out[i] = &model.SampleStream{Metric: s.Metric, Values: []model.SamplePair{pair}}
	}
	return out
}

// The series of amounts.
const (
	requests       = "kube_pod_container_resource_requests"
	initial        = "kube_pod_init_container_resource_requests"
	limits         = "kube_pod_container_resource_limits"
	initialLimits  = "kube_pod_init_container_resource_limits"
	initInfo       = "kube_pod_init_container_info"
	cpuOverhead    = "kube_pod_overhead_cpu_cores"
	memoryOverhead = "kube_pod_overhead_memory_bytes"
)

// container names a container of a pod.
type container struct {
	of   *pod
	name string
}

// need is the amount of a resource that the containers of a pod request.
type need struct{ together, initial, overhead float64 }

// total returns the pod's request: containers and sidecars run together, after each init container has run alone.
func (n *need) total() float64 { return max(n.together, n.initial) + n.overhead }

// needs holds the needs of pods, by the resource.
type needs map[*pod]map[string]*need

func (all needs) of(p *pod, resource string) *need {
	if all[p] == nil {
		all[p] = map[string]*need{}
	}
	if all[p][resource] == nil {
		all[p][resource] = &need{}
	}
	return all[p][resource]
}

// amounts reads the requests and limits of pods. Requests that ended are dropped.
func (r *reader) amounts(ctx context.Context, at time.Time) error {
	query := fmt.Sprintf(`group by (%s) (last_over_time(%s{restart_policy="Always"}[%s]))`, widened(podKey+",container"), initInfo, r.window)
	always, err := r.query(ctx, initInfo, query, at)
	if err != nil {
		return err
	}
	sidecars := map[container]bool{}
	r.apply(initInfo, always, func(p *pod, s *model.Sample) { sidecars[container{p, string(s.Metric["container"])}] = true })
	requested, err := r.needs(ctx, requests, initial, sidecars, at)
	if err != nil {
		return err
	}
	limited, err := r.needs(ctx, limits, initialLimits, sidecars, at)
	if err != nil {
		return err
	}
	for _, x := range []struct{ series, resource string }{{cpuOverhead, "cpu"}, {memoryOverhead, "memory"}} {
		err := r.each(ctx, x.series, podKey, at, func(p *pod, s *model.Sample) {
			requested.of(p, x.resource).overhead = float64(s.Value)
			if limited[p][x.resource] != nil { // a pod without a limit gets none
				limited[p][x.resource].overhead = float64(s.Value)
			}
		})
		if err != nil {
			return err
		}
	}
	for p, all := range requested {
		p.row.MilliCPU, p.row.Memory, p.row.GPU, p.row.Extended = 0, 0, 0, ""
		for _, resource := range slices.Sorted(maps.Keys(all)) {
			request(&p.row, resource, all[resource].total())
		}
	}
	for p, all := range limited {
		p.row.CPULimit, p.row.MemoryLimit = 0, 0
		for resource, n := range all {
			limit(&p.row, resource, n.total())
		}
	}
	return nil
}

// needs adds up what containers and init containers ask for.
func (r *reader) needs(ctx context.Context, main, initial string, sidecars map[container]bool, at time.Time) (needs, error) {
	all := needs{}
	if err := r.demands(ctx, main, at, func(d demand, v float64) { all.of(d.of, d.resource).together += v }); err != nil {
		return nil, err
	}
	err := r.demands(ctx, initial, at, func(d demand, v float64) {
		n := all.of(d.of, d.resource)
		if sidecars[d.container] {
			n.together += v
		} else {
			n.initial = max(n.initial, v)
		}
	})
	return all, err
}

// demand is a container's request for a resource.
type demand struct {
	container
	resource string
}

// demands calls f once with each container's request, even if series with and without a UID hold it. Pods without a node get the series'
// node.
func (r *reader) demands(ctx context.Context, series string, at time.Time, f func(demand, float64)) error {
	all := map[demand]float64{}
	vector, err := r.last(ctx, series, podKey+",container,resource,node", at)
	vector = slices.DeleteFunc(vector, func(s *model.Sample) bool {
		if s.Metric["resource"] == "" {
			r.gaps.stray(series, nameOf(s.Metric)+" without the label resource")
		}
		return s.Metric["resource"] == ""
	})
	r.apply(series, vector, func(p *pod, s *model.Sample) {
		d := demand{container{p, string(s.Metric["container"])}, string(s.Metric["resource"])}
		all[d] = max(all[d], float64(s.Value))
		p.row.Node = cmp.Or(p.row.Node, string(s.Metric["node"]))
	})
	for d, v := range all {
		f(d, v)
	}
	return err
}

// amount returns a number as a whole one from 0 to most.
func amount(v float64, most int64) int64 {
	if !(v > 0) {
		return 0
	}
	return int64(math.Round(min(v, float64(most))))
}

// request sets the amount that a pod requests.
func request(p *record.Pod, resource string, v float64) {
	switch resource {
	case "cpu":
		p.MilliCPU = amount(v*1000, cluster.MaxMilliCPU)
	case "memory":
		p.Memory = amount(v, cluster.MaxMemory)
	case "nvidia_com_gpu":
		p.GPU = amount(v, cluster.MaxDevices)
	default:
		p.Extended = withAmount(p.Extended, resource, v)
	}
}

func limit(p *record.Pod, resource string, v float64) {
	switch resource {
	case "cpu":
		p.CPULimit = amount(v*1000, cluster.MaxMilliCPU)
	case "memory":
		p.MemoryLimit = amount(v, cluster.MaxMemory)
	}
}

// withAmount adds an amount to a JSON column of amounts by resource, or raises it.
func withAmount(column, resource string, v float64) string {
	all := map[string]string{}
	if record.ReadColumn(column, &all) != nil {
		return column
	}
	all[resourceName(resource)] = fmt.Sprint(amount(v, math.MaxInt64/2))
	return record.Column(all)
}

// resourceName guesses the name of a resource in which kube-state-metrics has replaced all punctuation.
func resourceName(s string) string {
	for _, domain := range []string{"com", "io", "ai", "org", "net"} {
		if before, after, ok := strings.Cut(s, "_"+domain+"_"); ok {
			return strings.ReplaceAll(before, "_", ".") + "." + domain + "/" + after
		}
	}
	return strings.ReplaceAll(s, "_", "-")
}
