package history

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"gnnsched/workload/record"
)

// unknown names the columns that kube-state-metrics does not have.
const unknown = "affinity, topology spread, node selectors, host ports, volume claims, " +
	"preemption policies, disruption budgets, priorities but those of system classes"

// facts names what the record lacks without a series. A steady series has samples as long as there are pods and nodes, so a chunk without
// it is a gap.
var facts = []struct {
	series, text string
	steady       bool
}{
	{podLabels, "labels of pods (kube-state-metrics needs --metric-labels-allowlist=pods=[*])", true},
	{nodeLabels, "labels of nodes (kube-state-metrics needs --metric-labels-allowlist=nodes=[*])", true},
	{tolerations, "tolerations (the series kube_pod_tolerations)", true},
	{created, "arrivals (the series kube_pod_created)", true},
	{scheduled, "bindings (the series kube_pod_status_scheduled_time)", true},
	{phase, "how pods ended (the series kube_pod_status_phase)", true},
	{requests, "requests (the series kube_pod_container_resource_requests)", true},
	{allocatable, "capacities of nodes (the series kube_node_status_allocatable)", true},
	{initInfo, "requests of native sidecars if there are any (the label restart_policy of kube_pod_init_container_info)", false},
	{cpuOverhead, "the overhead of pods if they have any (the series kube_pod_overhead_cpu_cores)", false},
}

// names is a set of names to count.
type names map[string]bool

// some returns the number of names and the first one.
func (n names) some() string {
	return fmt.Sprintf("%d (%s is the first)", len(n), slices.Min(slices.Collect(maps.Keys(n))))
}

// gaps collects the data that Prometheus lacked.
type gaps struct {
	chunks  int            // with pods
	has     map[string]int // chunks that had a series
	without map[string]time.Time
	now     map[string]bool // series of this chunk
	invalid map[string]int  // values by series
	strays  map[string]names
	nodes   names // all there have been
	empty   names // nodes of unknown capacity
	bare    names // pods of unknown arrival
	lost    names // pods bound to unknown nodes
	again   names // pods whose name came again in one chunk, and whose series have no UID
	unnamed bool  // pods have no UID
	usage   map[string]*usageGaps
}

// usageGaps is which usage of pods or nodes is missing.
type usageGaps struct {
	Measured
	times, with int
	of          names // measured
}

func newGaps() gaps {
	return gaps{has: map[string]int{}, without: map[string]time.Time{}, now: map[string]bool{}, invalid: map[string]int{},
		strays: map[string]names{}, usage: map[string]*usageGaps{},
		nodes: names{}, empty: names{}, bare: names{}, lost: names{}, again: names{}}
}

// stray notes a series of an unknown object.
func (g *gaps) stray(series, name string) {
	if g.strays[series] == nil {
		g.strays[series] = names{}
	}
	g.strays[series][cmp.Or(strings.Trim(name, "/"), "a series without its labels")] = true
}

// used notes what was measured at some times of a chunk.
func (g *gaps) used(what string, times int, m Measured) {
	u := g.usage[what]
	if u == nil {
		u = &usageGaps{of: names{}}
		g.usage[what] = u
	}
	at := map[int64]bool{}
	for _, s := range m.Samples {
		at[s.Time] = true
		u.of[s.Name] = true
	}
	m.Samples = nil
	u.add(m)
	u.times, u.with = u.times+times, u.with+min(len(at), times)
}

// chunk ends a chunk that had pods.
func (g *gaps) chunk(from time.Time) {
	g.chunks++
	for _, f := range facts {
		if g.now[f.series] {
			g.has[f.series]++
		} else if _, before := g.without[f.series]; !before {
			g.without[f.series] = from
		}
	}
	clear(g.now)
}

// missing lists the gaps of the record. usage tells whether usage was asked for.
func (g *gaps) missing(usage bool) (out []string) {
	for _, f := range facts {
		if g.has[f.series] == 0 {
			out = append(out, f.text)
		}
	}
	if g.unnamed {
		out = append(out, "which pods of one name are the same (the label uid of kube_pod_info)")
	}
	if !usage {
		return append(out, "usage")
	}
	for _, q := range usageQueries {
		if u := g.usage[q.what]; u == nil || u.with == 0 {
			out = append(out, "usage of "+q.what)
		}
	}
	for _, q := range usageQueries {
		if u := g.usage[q.what]; u != nil && u.Single > 0 { // such as the first of a pod, which has no rate yet
			out = append(out, fmt.Sprintf("%d values of usage of %s of which Prometheus has CPU or memory alone", u.Single, q.what))
		}
	}
	return out
}

// wrong lists the faults of the existing series.
func (g *gaps) wrong() (out []string) {
	say := func(format string, values ...any) { out = append(out, fmt.Sprintf(format, values...)) }
	for _, f := range facts {
		if n := g.has[f.series]; f.steady && n > 0 && n < g.chunks {
			say("in %d of %d chunks, first from %s: %s", g.chunks-n, g.chunks, text(g.without[f.series]), f.text)
		}
	}
	for _, series := range slices.Sorted(maps.Keys(g.invalid)) {
		if n := g.invalid[series]; n > 0 {
			say("%d values of %s that were negative or no finite numbers", n, series)
		}
	}
	for _, series := range slices.Sorted(maps.Keys(g.strays)) {
		say("%s of what kube_pod_info or kube_node_info lacks: %s", series, g.strays[series].some())
	}
	if g.has[created] == 0 {
		g.bare = nil // a fact
	}
	for _, x := range []struct {
		of   names
		text string
	}{
		{g.empty, "CPU or memory of nodes, which kube_node_status_allocatable lacks: %s"},
		{g.bare, "arrivals of pods, which kube_pod_created lacks: %s"},
		{g.lost, "nodes of pods, as kube_node_info has no node of the name: %s"},
		{g.again, "times of pods whose name came again within a chunk, as their series have no uid: %s"},
	} {
		if len(x.of) > 0 {
			say(x.text, x.of.some())
		}
	}
	for _, q := range usageQueries {
		if u := g.usage[q.what]; u != nil {
			out = append(out, u.wrong(q.what, g.nodes)...)
		}
	}
	return out
}

// wrong lists the faults of the usage of pods or nodes.
func (u *usageGaps) wrong(what string, nodes names) (out []string) {
	say := func(format string, values ...any) { out = append(out, fmt.Sprintf(format, values...)) }
	if 0 < u.with && u.with < u.times {
		say("usage of %s at %d of %d times", what, u.times-u.with, u.times)
	}
	if what == "nodes" && u.with > 0 {
		without := maps.Clone(nodes)
		maps.DeleteFunc(without, func(name string, _ bool) bool { return u.of[name] })
		if len(without) > 0 {
			say("usage of some nodes: %s", without.some())
		}
	}
	if u.Invalid > 0 {
		say("%d values of usage of %s that were negative or no finite numbers", u.Invalid, what)
	}
	if len(u.Unknown) > 0 {
		say("usage of %s that kube-state-metrics does not know by this name: %s", what, names(u.Unknown).some())
	}
	return out
}

// source is the source of a history's runs.
const source = "prometheus"

// Earlier holds the parts of a record that an earlier history read.
type Earlier struct {
	Until time.Time // the end of the last chunk that was read
	pods  map[string]record.Pod
	nodes []record.Node
	runs  int
}

// Resume reads the record of a history in a folder, so that Read can go on with it. Records of other sources are refused.
func Resume(dir string) (*Earlier, error) {
	r, err := record.Open(dir)
	if err != nil {
		return nil, err
	}
	pods, podsErr := r.Pods()
	nodes, nodesErr := r.Nodes()
	runs, runsErr := r.Runs()
	if err := errors.Join(podsErr, nodesErr, runsErr); err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	if d := r.Damaged(); len(d) > 0 {
		return nil, fmt.Errorf("%s is damaged: %s", dir, d[0])
	}
	until := int64(0)
	for _, run := range runs {
		if run.Source != source {
			return nil, fmt.Errorf("%s is a record already, of the source %s", dir, run.Source)
		}
		until = max(until, run.To)
	}
	if until == 0 {
		return nil, fmt.Errorf("%s is a record already, and does not say until when it was read", dir)
	}
	e := &Earlier{Until: time.UnixMilli(until).UTC(), pods: make(map[string]record.Pod, len(pods)), runs: len(runs)}
	for _, p := range pods {
		e.pods[p.UID] = p
	}
	for _, n := range nodes {
		if n.From <= until && (n.To == 0 || n.To > until) { // later rows come from an incomplete chunk
			n.To, n.Gone = 0, false
			e.nodes = append(e.nodes, n)
		}
	}
	return e, nil
}

// goOn takes up the pods and nodes that had not gone when the record was cut off.
func (r *reader) goOn(e *Earlier) {
	r.runs = e.runs
	for i := range e.nodes {
		n := e.nodes[i]
		r.nodes[n.Name] = &n
	}
	for uid, row := range e.pods {
		if until := e.Until.UnixMilli(); row.Arrived <= until && (row.Ended == 0 || row.Ended > until) {
			r.pods[uid] = known(row)
			r.pods[uid].row.Ended, r.pods[uid].row.End = 0, ""
			r.pods[uid].seen = until
		}
	}
}

// known returns a pod with a row in the record.
func known(row record.Pod) *pod {
	p := &pod{row: row, written: row, dated: true, labels: record.Labels(row.Labels)}
	_ = record.ReadColumn(row.Tolerations, &p.tolerates) // what cannot be read counts as none
	return p
}
