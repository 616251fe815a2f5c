// Package history makes a record of the past of a cluster, from the series of kube-state-metrics and the kubelets that a
// Prometheus server has kept.
//
// Series are read in chunks of time, so that the memory and each query are bounded. Pods are known to the second, as kube-state-metrics
// gives their times; nodes are looked at between chunks. The record names its gaps. After each chunk it is complete until then, so a
// history that was cut off is usable, and Resume goes on with it.
//
// Series are joined by uid, or by namespace and name where there is none (kube-state-metrics before 2.0); then a name that comes again
// within a chunk has the times of its newest pod. Where a job has no honor_labels, labels such as exported_pod count, and the scraped
// target's labels do not; pod_name and container_name of Kubernetes before 1.16 are read. Usage without a node is found by instance and the
// internal_ip of kube_node_info. If several jobs scrape one source, each container and node counts once, with the largest value. A pod has
// its last scraped labels, owner and requests. Its request is the sum of its containers and native sidecars or, if larger, the largest init
// container.
package history

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"

	"gnnsched/internal/promapi"
	"gnnsched/workload/record"
)

// Asker answers queries. A *promapi.Client is one.
type Asker interface {
	Query(ctx context.Context, query string, at time.Time) (model.Vector, error)
	Range(ctx context.Context, query string, from, to time.Time, step time.Duration) (model.Matrix, error)
}

// Sink takes the rows. A *record.Writer is one.
type Sink interface {
	Pod(record.Pod)
	Node(record.Node)
	Object(record.Object)
	Sample(record.Sample)
	Run(record.Run)
	Flush() (record.Flushed, error)
}

// Config configures Read.
type Config struct {
	Ask      Asker
	Out      Sink
	From, To time.Time
	Chunk    time.Duration // of time that one query covers
	Usage    time.Duration // between two measurements; 0 for none
	Program  string        // version of the program, for the record
	Progress func(done float64, pods int)
	// Earlier, if not nil, holds the existing part of the record. From must not be before its end.
	Earlier *Earlier
	// Patience limits the time of one try of a query; 0 for five minutes.
	Patience time.Duration
	// Pause waits before a query is repeated.
	Pause func(context.Context, time.Duration) error
}

// Result describes the read history.
type Result struct {
	Nodes, Pods int
	Owners      string   // those of pods at the end, as record.CountOwners counts them
	Missing     string   // what the record lacks
	Wrong       []string // the part of it that comes from series with faults or gaps
}

// Unanswered is the error of a history that Prometheus did not give. Read's other errors come from the Sink.
type Unanswered struct{ Err error }

func (u Unanswered) Error() string { return u.Err.Error() }

// Unwrap returns Err, for errors.Is and errors.As.
func (u Unanswered) Unwrap() error { return u.Err }

// reader is the state of reading a history.
type reader struct {
	Config
	pods      map[string]*pod         // that had not gone at the end of the last chunk, by UID
	nodes     map[string]*record.Node // that were there then
	objects   map[objectKey]*record.Object
	gaps      gaps
	out       Result
	run       *record.Run // that goes on; nil in a gap
	runs      int
	window    string            // the chunk's length, as PromQL has it
	here      map[*pod]bool     // pods that were there within the chunk
	named     map[string][]*pod // the same by namespace/name, the newest last
	before    map[string]bool   // such names of the chunk before
	addresses map[string]string // of nodes, and their names
	located   bool              // a pod was on a node that is known
	rows      batch             // of the chunk
}

// batch holds rows until the whole chunk was read.
type batch struct {
	samples []record.Sample
	nodes   []record.Node
	objects []record.Object
	pods    []record.Pod
}

// Read reads the history and flushes it to the sink after each chunk. An error says until when the record is complete.
func Read(ctx context.Context, c Config) (Result, error) {
	r := &reader{Config: c, pods: map[string]*pod{}, nodes: map[string]*record.Node{}, gaps: newGaps(),
		objects: map[objectKey]*record.Object{},
		before:  map[string]bool{}, addresses: map[string]string{}}
	if c.Earlier != nil {
		r.goOn(c.Earlier)
	}
	reached, err := r.read(ctx)
	r.out.Missing, r.out.Wrong, r.out.Owners = r.missing(), r.gaps.wrong(), record.CountOwners(r.present())
	switch {
	case err != nil && reached.After(c.From):
		err = fmt.Errorf("%w; the record is complete until %s", err, text(reached))
	case err == nil && r.gaps.chunks == 0:
		err = Unanswered{fmt.Errorf("Prometheus has no series %s from %s to %s", podInfo, text(r.From), text(r.To))}
	}
	return r.out, err
}

// read reads chunk after chunk, and returns the end of the last flushed chunk.
func (r *reader) read(ctx context.Context) (reached time.Time, err error) {
	if err := r.apart(ctx, r.From); err != nil {
		return r.From, err
	}
	if err := r.readNodes(ctx, r.From); err != nil {
		return r.From, err
	}
	for from := r.From; from.Before(r.To); {
		to := from.Add(r.Chunk)
		if to.After(r.To) {
			to = r.To
		}
		if err := r.chunk(ctx, from, to); err != nil {
			return from, fmt.Errorf("%s to %s: %w", text(from), text(to), err)
		}
		r.Progress(float64(to.Sub(r.From))/float64(r.To.Sub(r.From)), r.out.Pods)
		from = to
	}
	return r.To, nil
}

func text(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// chunk reads one chunk of time. Times without scrapes of kube-state-metrics become gaps between two runs.
func (r *reader) chunk(ctx context.Context, from, to time.Time) error {
	r.window = fmt.Sprintf("%dms", to.Sub(from).Milliseconds())
	found, err := r.readPods(ctx, from, to)
	if err != nil {
		return err
	}
	if err := r.readNodes(ctx, to); err != nil {
		return err
	}
	if err := r.apart(ctx, to); err != nil {
		return err
	}
	if found {
		if err := r.readOwners(ctx, from, to); err != nil {
			return err
		}
		if err := r.joined(); err != nil {
			return err
		}
		r.gaps.chunk(from)
		if err := r.needed(); err != nil {
			return err
		}
	}
	if r.Usage > 0 {
		if err := r.readUsage(ctx, from, to); err != nil {
			return err
		}
	}
	if !found {
		r.run = nil
	} else if r.run == nil {
		r.runs++
		r.run = &record.Run{ID: fmt.Sprint(r.runs), Source: source, From: from.UnixMilli(), Program: r.Program}
	}
	return r.write(to)
}

// write hands the rows of a chunk to the sink. The row of the run comes with the last of them.
func (r *reader) write(to time.Time) error {
	n := 0
	next := func() error {
		if n++; n%100_000 != 0 { // a Writer holds 200,000 rows
			return nil
		}
		_, err := r.Out.Flush()
		return err
	}
	for _, s := range r.rows.samples {
		r.Out.Sample(s)
		if err := next(); err != nil {
			return err
		}
	}
	for _, s := range r.rows.nodes {
		r.Out.Node(s)
	}
	for _, o := range r.rows.objects {
		r.Out.Object(o)
		if err := next(); err != nil {
			return err
		}
	}
	for _, p := range r.rows.pods {
		r.Out.Pod(p)
		if err := next(); err != nil {
			return err
		}
	}
	r.rows = batch{}
	if r.run != nil {
		r.run.To, r.run.Missing = to.UnixMilli(), r.missing()
		r.Out.Run(*r.run)
	}
	_, err := r.Out.Flush()
	return err
}

// needed returns an error if a needed series has been missing so far. The chunk is not written then: pods without requests would look like
// pods that need nothing.
func (r *reader) needed() error {
	has := map[string]bool{nodeInfo: len(r.gaps.nodes) > 0, requests: r.gaps.has[requests] > 0, allocatable: r.gaps.has[allocatable] > 0}
	for _, series := range []string{nodeInfo, requests, allocatable} {
		if !has[series] {
			return Unanswered{fmt.Errorf("Prometheus has no series %s", series)}
		}
	}
	return nil
}

// joined returns an error if series that a record needs are there, but belong to no pod or node.
func (r *reader) joined() error {
	for _, series := range []string{podInfo, nodeInfo, requests, allocatable} {
		if strays := r.gaps.strays[series]; len(strays) > 0 && !r.gaps.now[series] && r.gaps.has[series] == 0 {
			return Unanswered{fmt.Errorf("%s is there, but none of its series is of a pod of kube_pod_info "+
				"or a node of kube_node_info; they are of %s: "+
				"labels such as namespace, pod, uid, node or resource are missing, or Prometheus has renamed them", series, strays.some())}
		}
	}
	placed := 0
	for p := range r.here {
		if r.gaps.nodes[p.row.Node] {
			r.located = true
		} else if p.placed || p.row.Node != "" {
			placed++
			r.gaps.lost[p.name()] = true
		}
	}
	if placed == 0 || r.located || len(r.gaps.nodes) == 0 {
		return nil
	}
	return Unanswered{fmt.Errorf("no pod is on a node of kube_node_info, though %d are bound: "+
		"kube_pod_info lacks the label node, or Prometheus has renamed it", placed)}
}

// missing lists what the record lacks.
func (r *reader) missing() string {
	always := []string{unknown, fmt.Sprintf("nodes' changes between times that are %v apart", r.Chunk)}
	return strings.Join(slices.Concat(always, r.gaps.missing(r.Usage > 0), r.gaps.wrong()), ", ")
}

// tries is the number of attempts for a failing query.
const tries = 4

// patience is longer than the two minutes after which Prometheus itself gives a query up.
const patience = 5 * time.Minute

// again asks until there is an answer, Prometheus refuses the query, or it has failed often.
func (r *reader) again(ctx context.Context, series string, ask func(context.Context) error) error {
	for n := 1; ; n++ {
		try, cancel := context.WithTimeout(ctx, cmp.Or(r.Patience, patience))
		err := ask(try)
		cancel()
		if refused := (promapi.Refused{}); err == nil || n == tries || ctx.Err() != nil || errors.As(err, &refused) {
			if err != nil {
				err = Unanswered{fmt.Errorf("%s: %w", series, err)}
			}
			return err
		}
		if err := r.Pause(ctx, time.Second<<(n-1)); err != nil {
			return err
		}
	}
}

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
	{replicas, "the replicas of Deployments (the series kube_deployment_spec_replicas)", false},
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
	// objects are the owners of pods.
	objects []record.Object
	runs    int
}

// Resume reads the record of a history in a folder, so that Read can go on with it. Records of other sources are refused.
func Resume(dir string) (*Earlier, error) {
	r, err := record.Open(dir)
	if err != nil {
		return nil, err
	}
	pods, podsErr := r.Pods()
	nodes, nodesErr := r.Nodes()
	objects, objectsErr := r.Objects()
	runs, runsErr := r.Runs()
	if err := errors.Join(podsErr, nodesErr, objectsErr, runsErr); err != nil {
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
	for _, o := range objects {
		if o.From < until && (o.To == 0 || o.To >= until) {
			o.To, o.Gone = 0, false
			e.objects = append(e.objects, o)
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
	for i := range e.objects {
		o := e.objects[i]
		r.objects[objectKey{o.Kind, o.Namespace, o.Name}] = &o
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
