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
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/kube"
	"gnnsched/workload/record"
)

// The series of pods.
const (
	podInfo     = "kube_pod_info"
	podOwner    = "kube_pod_owner"
	podLabels   = "kube_pod_labels"
	tolerations = "kube_pod_tolerations"
	created     = "kube_pod_created"
	scheduled   = "kube_pod_status_scheduled_time"
	started     = "kube_pod_start_time"
	completed   = "kube_pod_completion_time"
	deleted     = "kube_pod_deletion_timestamp"
	phase       = "kube_pod_status_phase"
)

// pod holds the known properties of a pod.
type pod struct {
	row, written  record.Pod
	labels        map[string]string
	tolerates     []corev1.Toleration
	placed, dated bool  // by series, it is or was bound, and has a creation time
	older         bool  // a pod of the same name came in the same chunk
	seen          int64 // when kube-state-metrics had it last
	deletion      int64 // when it was to be deleted; 0 if it was not
}

func (p *pod) name() string { return p.row.Namespace + "/" + p.row.Name }

// nameOf returns namespace and name of the pod of a sample.
func nameOf(m model.Metric) string { return string(m["namespace"]) + "/" + string(m["pod"]) }

// id returns the key of the pod of a sample of kube_pod_info. Old versions of kube-state-metrics give no UID.
func id(m model.Metric) string { return cmp.Or(string(m["uid"]), nameOf(m)) }

// of returns the possible pods of a sample of any series: the pods with its name if the sample or the pods have no UID.
func (r *reader) of(m model.Metric) []*pod {
	for _, key := range []string{id(m), nameOf(m)} {
		if p := r.pods[key]; p != nil {
			return []*pod{p}
		}
	}
	if m["uid"] != "" {
		return nil
	}
	return r.named[nameOf(m)]
}

// readPods reads the pods of a chunk. found is false if kube-state-metrics had none.
func (r *reader) readPods(ctx context.Context, from, to time.Time) (found bool, err error) {
	for name := range r.named {
		r.before[name] = true
	}
	r.here, r.named = nil, nil
	info, err := r.history(ctx, podInfo, podKey+",node,created_by_kind,created_by_name,priority_class", to)
	if err != nil || len(info) == 0 {
		return false, err
	}
	r.here, r.named = map[*pod]bool{}, map[string][]*pod{}
	for _, s := range info {
		if s.Metric["pod"] == "" || s.Metric["namespace"] == "" {
			r.gaps.stray(podInfo, nameOf(s.Metric))
			continue
		}
		r.gaps.now[podInfo] = true
		r.gaps.unnamed = r.gaps.unnamed || s.Metric["uid"] == ""
		r.here[r.info(s, from)] = true
	}
	r.name()
	for _, read := range []func(context.Context, time.Time) error{r.times, r.owners, r.amounts, r.labelled, r.tolerated, r.ends} {
		if err := read(ctx, to); err != nil {
			return true, err
		}
	}
	here, err := r.query(ctx, podInfo, "group by ("+widened(podKey)+") ("+podInfo+")", to)
	if err != nil {
		return true, err
	}
	present := make(map[string]bool, len(here))
	for _, s := range here {
		present[id(s.Metric)] = true
	}
	for _, uid := range slices.Sorted(maps.Keys(r.pods)) {
		p := r.pods[uid]
		gone := len(here) > 0 && !present[uid] // else kube-state-metrics was away
		if gone {
			p.leave(to.UnixMilli())
		}
		p.finish()
		if p.dated {
			delete(r.gaps.bare, p.name())
		} else {
			r.gaps.bare[p.name()] = true
		}
		if p.row != p.written {
			p.written = p.row
			r.rows.pods = append(r.rows.pods, p.row)
		}
		if gone {
			delete(r.pods, uid)
		}
	}
	return true, nil
}

// name fills in the pods by their names.
func (r *reader) name() {
	clear(r.before)
	for p := range r.here {
		r.named[p.name()] = append(r.named[p.name()], p)
	}
	for _, all := range r.named {
		slices.SortFunc(all, func(a, b *pod) int { return cmp.Or(cmp.Compare(a.seen, b.seen), cmp.Compare(a.row.UID, b.row.UID)) })
		for i, p := range all {
			p.older = i < len(all)-1
		}
	}
}

// info notes a pod, which was there from the time at the latest, and when it was scraped last.
func (r *reader) info(s *model.Sample, from time.Time) *pod {
	m, uid := s.Metric, id(s.Metric)
	p := r.pods[uid]
	if p == nil {
		p = &pod{
			row:    record.Pod{UID: uid, Namespace: string(m["namespace"]), Name: string(m["pod"]), Arrived: from.UnixMilli()},
			labels: map[string]string{},
		}
		if r.Earlier != nil && r.Earlier.pods[uid].UID != "" {
			p = known(r.Earlier.pods[uid])
		} else {
			r.out.Pods++
		}
		r.pods[uid] = p
	}
	p.seen = max(p.seen, millis(s.Value))
	p.row.Node = cmp.Or(string(m["node"]), p.row.Node)
	p.row.OwnerKind, p.row.OwnerName = named(m["created_by_kind"]), named(m["created_by_name"])
	p.row.PriorityClass = string(m["priority_class"])
	return p
}

// named returns a label's value, or "" for kube-state-metrics' placeholder.
func named(v model.LabelValue) string {
	if v == "<none>" {
		return ""
	}
	return string(v)
}

// each calls f with the last values of a series, and the pods that have them.
func (r *reader) each(ctx context.Context, series, by string, at time.Time, f func(*pod, *model.Sample)) error {
	all, err := r.last(ctx, series, by, at)
	r.apply(series, all, f)
	return err
}

// apply calls f with samples and their pods. It notes the series as present if any sample has a pod.
func (r *reader) apply(series string, all model.Vector, f func(*pod, *model.Sample)) {
	for _, s := range all {
		of := r.of(s.Metric)
		if len(of) == 0 {
			r.gaps.stray(series, nameOf(s.Metric))
			continue
		}
		r.gaps.now[series] = true
		for _, p := range of {
			f(p, s)
		}
	}
}

// newest returns a function that passes on only samples of the newest pod of a name.
func (r *reader) newest(f func(*pod, *model.Sample)) func(*pod, *model.Sample) {
	return func(p *pod, s *model.Sample) {
		if p.older && s.Metric["uid"] == "" {
			r.gaps.again[p.name()] = true
			return
		}
		f(p, s)
	}
}

const podKey = "namespace,pod,uid"

// millis returns a value in seconds as milliseconds since 1970; 0 if it is no time.
func millis(v model.SampleValue) int64 {
	if !(v > 0 && v < 253402300799) {
		return 0
	}
	return int64(math.Round(float64(v) * 1000))
}

func (r *reader) times(ctx context.Context, at time.Time) error {
	for _, x := range []struct {
		series string
		set    func(*pod, int64)
	}{
		{created, func(p *pod, t int64) { p.row.Arrived, p.dated = t, true }},
		{started, func(p *pod, t int64) { p.row.Bound, p.placed = cmp.Or(p.row.Bound, t), true }},
		{scheduled, func(p *pod, t int64) { p.row.Bound, p.placed = t, true }},
		{completed, func(p *pod, t int64) { p.row.Ended = t }},
		{deleted, func(p *pod, t int64) { p.deletion = t }},
	} {
		err := r.each(ctx, x.series, podKey, at, r.newest(func(p *pod, s *model.Sample) {
			if t := millis(s.Value); t > 0 {
				x.set(p, t)
			}
		}))
		if err != nil {
			return err
		}
	}
	return nil
}

// owners reads the controllers of pods. At most one of a pod's owners that were scraped at one time is its controller.
func (r *reader) owners(ctx context.Context, at time.Time) error {
	all, err := r.history(ctx, podOwner, podKey+",owner_kind,owner_name,owner_is_controller", at)
	controlled := map[*pod]model.SampleValue{} // until when
	r.apply(podOwner, all, func(p *pod, s *model.Sample) {
		switch {
		case s.Metric["owner_is_controller"] == "true":
			p.row.OwnerKind, p.row.OwnerName = named(s.Metric["owner_kind"]), named(s.Metric["owner_name"])
			controlled[p] = s.Value
		case s.Value > controlled[p]:
			p.row.OwnerKind, p.row.OwnerName = "", ""
		}
	})
	return err
}

// ends reads how pods finished, and which run.
func (r *reader) ends(ctx context.Context, at time.Time) error {
	all, err := r.query(ctx, phase, fmt.Sprintf(`max by (%s) (last_over_time(%s[%s])) == 1`, widened(podKey+",phase"), phase, r.window), at)
	r.apply(phase, all, r.newest(func(p *pod, s *model.Sample) {
		switch now := string(s.Metric["phase"]); now {
		case record.Succeeded, record.Failed:
			p.row.End = now
			p.row.Ended = cmp.Or(p.row.Ended, p.seen)
		case string(corev1.PodRunning): // only a pod that is bound runs, whether or not there are series of its times
			p.placed = true
		}
	}))
	return err
}

// labelled reads the labels of pods. The last scraped labels count.
func (r *reader) labelled(ctx context.Context, at time.Time) error {
	all, err := r.history(ctx, podLabels, "", at)
	if err != nil || len(all) == 0 {
		return err
	}
	for p := range r.here {
		p.labels = map[string]string{}
	}
	there := r.gaps.now[podLabels]
	r.apply(podLabels, all, func(p *pod, s *model.Sample) { p.labels = labels(s.Metric); there = there || len(p.labels) > 0 })
	r.gaps.now[podLabels] = there // without an allowlist, the series has no labels of pods
	return nil
}

// labels returns what kube-state-metrics gives as label_app_kubernetes_io_name.
func labels(m model.Metric) map[string]string {
	out := map[string]string{}
	for name, value := range m {
		if key, ok := strings.CutPrefix(string(name), "label_"); ok && value != "" {
			out[record.KeyOf(key)] = string(value)
		}
	}
	return out
}

func (r *reader) tolerated(ctx context.Context, at time.Time) error {
	all, err := r.last(ctx, tolerations, podKey+",key,operator,value,effect,toleration_seconds", at)
	if err != nil || len(all) == 0 {
		return err
	}
	for p := range r.here {
		p.tolerates = nil
	}
	r.apply(tolerations, all, func(p *pod, s *model.Sample) {
		t := corev1.Toleration{
			Key: string(s.Metric["key"]), Operator: corev1.TolerationOperator(s.Metric["operator"]), Value: string(s.Metric["value"]),
			Effect: corev1.TaintEffect(s.Metric["effect"]),
		}
		if s.Metric["toleration_seconds"] == "" { // those with a time are nearly all Kubernetes' own
			p.tolerates = append(p.tolerates, t)
		}
	})
	return nil
}

// leave ends a pod that was not there any more at a time. A completion counts only if the pod ended by itself: the series is there as
// soon as one container has finished.
func (p *pod) leave(at int64) {
	if p.row.Ended != 0 && p.row.End != "" {
		return
	}
	p.row.Ended, p.row.End = max(p.row.Ended, cmp.Or(p.seen, at)), cmp.Or(p.row.End, record.Deleted)
	if p.deletion > p.row.Ended && p.deletion <= at {
		p.row.Ended = p.deletion
	}
}

// systemPriorities are the priorities that every cluster has.
var systemPriorities = map[string]int32{"system-node-critical": 2_000_001_000, "system-cluster-critical": 2_000_000_000}

// finish derives the columns that others decide.
func (p *pod) finish() {
	r := &p.row
	slices.SortFunc(p.tolerates, func(a, b corev1.Toleration) int { return strings.Compare(a.String(), b.String()) })
	r.Labels, r.Tolerations, r.Priority = record.Column(p.labels), record.Column(p.tolerates), systemPriorities[r.PriorityClass]
	r.Daemon = r.OwnerKind == "DaemonSet" || r.OwnerKind == "Node"
	r.Workload = p.workload()
	if r.Node == "" {
		r.Bound = 0
	} else {
		r.Bound = max(cmp.Or(r.Bound, r.Arrived), r.Arrived)
	}
	if r.Ended != 0 && r.End == "" {
		r.Ended = 0 // a container has finished, and the pod has not
	}
	if r.Ended != 0 {
		r.Ended = max(r.Ended, r.Bound, r.Arrived)
	}
}

// workload names the owner's owner. Without labels, the end of a ReplicaSet's name counts as the hash of its template.
func (p *pod) workload() string {
	if p.row.OwnerKind == "" {
		return ""
	}
	labels := p.labels
	if i := strings.LastIndexByte(p.row.OwnerName, '-'); labels["pod-template-hash"] == "" && i > 0 {
		labels = map[string]string{"pod-template-hash": p.row.OwnerName[i+1:]}
	}
	yes := true
	return kube.Workload(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Labels: labels, OwnerReferences: []metav1.OwnerReference{{Kind: p.row.OwnerKind, Name: p.row.OwnerName, Controller: &yes}},
	}})
}

// The series of nodes.
const (
	nodeInfo      = "kube_node_info"
	nodeCreated   = "kube_node_created"
	nodeLabels    = "kube_node_labels"
	allocatable   = "kube_node_status_allocatable"
	taint         = "kube_node_spec_taint"
	unschedulable = "kube_node_spec_unschedulable"
)

// readNodes reads the nodes at a time, and notes the nodes that came, changed or left since the last time.
func (r *reader) readNodes(ctx context.Context, at time.Time) error {
	infos, err := r.query(ctx, nodeInfo, "group by ("+widened("node,internal_ip")+") ("+nodeInfo+")", at)
	if err != nil || len(infos) == 0 { // kube-state-metrics was away
		return err
	}
	now := map[string]*record.Node{}
	for _, s := range infos {
		name := string(s.Metric["node"])
		if name == "" {
			r.gaps.stray(nodeInfo, "")
			continue
		}
		r.gaps.now[nodeInfo], r.gaps.nodes[name] = true, true
		if ip := string(s.Metric["internal_ip"]); ip != "" {
			r.addresses[ip] = name
		}
		now[name] = &record.Node{Name: name, From: at.UnixMilli()}
	}
	if err := r.describe(ctx, now, at); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(now)) {
		n, old := now[name], r.nodes[name]
		if old == nil {
			r.out.Nodes++
		} else {
			n.From = old.From
			if *n == *old {
				continue
			}
			old.To, n.From = at.UnixMilli(), at.UnixMilli()
			r.rows.nodes = append(r.rows.nodes, *old)
		}
		r.nodes[name] = n
		r.rows.nodes = append(r.rows.nodes, *n)
	}
	for _, name := range slices.Sorted(maps.Keys(r.nodes)) {
		if n := r.nodes[name]; now[name] == nil {
			n.To, n.Gone = at.UnixMilli(), true
			r.rows.nodes = append(r.rows.nodes, *n)
			delete(r.nodes, name)
		}
	}
	return nil
}

// describe fills in the nodes' properties at a time.
func (r *reader) describe(ctx context.Context, nodes map[string]*record.Node, at time.Time) error {
	var err error
	const amounts = "node,resource"
	each := func(series, by string, f func(*record.Node, *model.Sample)) {
		if err != nil {
			return
		}
		query := fmt.Sprintf("max by (%s) (%s)", widened(by), series)
		var all model.Vector
		if all, err = r.query(ctx, series, query, at); err != nil {
			return
		}
		for _, s := range all {
			n := nodes[string(s.Metric["node"])]
			switch {
			case n == nil:
				r.gaps.stray(series, string(s.Metric["node"]))
			case by == amounts && s.Metric["resource"] == "":
				r.gaps.stray(series, n.Name+" without the label resource")
			default:
				r.gaps.now[series] = true
				f(n, s)
			}
		}
	}
	of, taints := map[string]map[string]string{}, map[string][]corev1.Taint{}
	each(allocatable, amounts, func(n *record.Node, s *model.Sample) { offer(n, string(s.Metric["resource"]), float64(s.Value)) })
	each(unschedulable, "node", func(n *record.Node, s *model.Sample) { n.Unschedulable = s.Value == 1 })
	each(nodeCreated, "node", func(n *record.Node, s *model.Sample) {
		if t := millis(s.Value); t > r.From.UnixMilli() && t < n.From {
			n.From = t
		}
	})
	each(taint, "node,key,value,effect", func(n *record.Node, s *model.Sample) {
		taints[n.Name] = append(taints[n.Name], corev1.Taint{
			Key: string(s.Metric["key"]), Value: string(s.Metric["value"]), Effect: corev1.TaintEffect(s.Metric["effect"]),
		})
	})
	if err != nil {
		return err
	}
	all, err := r.query(ctx, nodeLabels, "timestamp("+nodeLabels+")", at)
	newestLast(all)
	for _, s := range all {
		of[string(s.Metric["node"])] = labels(s.Metric)
		r.gaps.now[nodeLabels] = r.gaps.now[nodeLabels] || len(of[string(s.Metric["node"])]) > 0
	}
	for name, n := range nodes {
		if n.MilliCPU == 0 || n.Memory == 0 {
			r.gaps.empty[name] = true
		}
		slices.SortFunc(taints[name], func(a, b corev1.Taint) int { return strings.Compare(a.ToString(), b.ToString()) })
		n.Labels, n.Taints, n.GPUModel = record.Column(of[name]), record.Column(taints[name]), of[name][kube.GPUModelLabel]
	}
	return err
}

// offer notes the amount of a resource that a node offers.
func offer(n *record.Node, resource string, v float64) {
	switch resource {
	case "cpu":
		n.MilliCPU = amount(v*1000, cluster.MaxMilliCPU)
	case "memory":
		n.Memory = amount(v, cluster.MaxMemory)
	case "pods":
		n.Pods = amount(v, 1<<20)
	case "nvidia_com_gpu":
		n.GPU = amount(v, cluster.MaxDevices)
	default:
		if v > 0 {
			n.Extended = withAmount(n.Extended, resource, v)
		}
	}
}

// SeveralClusters is the error of series that come from several clusters.
type SeveralClusters struct {
	Label  string
	Values []string
}

func (s SeveralClusters) Error() string {
	return fmt.Sprintf("Prometheus has the nodes of several clusters: the label %s has the values %q", s.Label, s.Values)
}

// clusterLabels are labels by which a Prometheus of several clusters tells them apart.
var clusterLabels = []model.LabelName{"cluster", "cluster_name", "cluster_id", "clustername", "k8s_cluster", "k8s_cluster_name",
	"kubernetes_cluster", "kube_cluster", "tenant_id"}

// machine are the labels of kube_node_info by which nodes of one name differ that are different machines.
var machine = []model.LabelName{"system_uuid", "provider_id", "internal_ip"}

// apart returns SeveralClusters if nodes at a time have different values of a cluster's label, or if one name stands for several machines;
// then any label that differs between those tells the clusters apart.
func (r *reader) apart(ctx context.Context, at time.Time) error {
	all, err := r.query(ctx, nodeInfo, nodeInfo, at)
	if err != nil {
		return err
	}
	values, first := map[model.LabelName][]string{}, map[model.LabelValue]model.Metric{}
	differ := map[model.LabelName]bool{}
	for _, s := range all {
		for label, v := range s.Metric {
			if !slices.Contains(values[label], string(v)) {
				values[label] = append(values[label], string(v))
			}
		}
		other, twice := first[s.Metric["node"]]
		if !twice {
			first[s.Metric["node"]] = s.Metric
		} else if slices.ContainsFunc(machine, func(l model.LabelName) bool { return differs(l, other, s.Metric) }) {
			for label := range s.Metric {
				differ[label] = differ[label] || differs(label, other, s.Metric)
			}
		}
	}
	others := slices.DeleteFunc(slices.Sorted(maps.Keys(differ)), func(l model.LabelName) bool {
		return !differ[l] || slices.Contains(machine, l) || strings.HasSuffix(string(l), "_version") ||
			slices.Contains([]model.LabelName{"os_image", "pod_cidr", "instance", "pod", "uid", "pod_ip", "host_ip"}, l)
	})
	for _, label := range append(slices.Clone(clusterLabels), others...) {
		if v := values[label]; len(v) > 1 {
			slices.Sort(v)
			return SeveralClusters{string(label), v}
		}
	}
	return nil
}

// differs reports whether both metrics have a label, with different values.
func differs(label model.LabelName, a, b model.Metric) bool {
	return a[label] != "" && b[label] != "" && a[label] != b[label]
}
