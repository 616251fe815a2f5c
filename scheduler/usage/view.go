package usage

import (
	"cmp"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/kube"
)

// View attaches the usage of a store to the snapshots of one scheduler profile. It is not safe for concurrent
// use. The zero View and nil attach nothing.
type View struct {
	store *store
	clock clock.PassiveClock

	table *table
	rows  []viewRow
}

// newView returns a view of a store.
func newView(s *store, clk clock.PassiveClock) *View { return &View{store: s, clock: clk} }

// viewRow is the usage of one row of the snapshot.
type viewRow struct {
	node     *cluster.Node       // that the row had at the last decision
	measured *cluster.NodeUsage  // from the table
	power    *cluster.PowerModel // calibrated, at the last decision
	recent   []recentPod
}

// recentPod is a pod that was bound a short time ago.
type recentPod struct {
	uid      types.UID
	workload string
	cluster.RecentPod
}

// Attach sets the time and the usage of a snapshot's nodes and of the pending pod. The nodes were converted from infos. It never waits.
func (v *View) Attach(s *cluster.Snapshot, infos []fwk.NodeInfo, pending *v1.Pod, pod *cluster.Pod) {
	if v == nil || v.store == nil {
		return
	}
	s.Now = seconds(v.clock.Now())
	table := v.store.current()
	anew := table != v.table
	v.table = table
	if len(v.rows) != len(s.Nodes) {
		v.rows, anew = make([]viewRow, len(s.Nodes)), true
	}
	for i, n := range s.Nodes {
		r := &v.rows[i]
		if n != r.node {
			v.follow(r, n, infos[i], s.Now)
			n.Usage = v.usage(r, s.Now)
		} else if anew {
			r.measured = table.Nodes[n.Name]
			n.Usage = v.usage(r, s.Now)
		}
		if n.Usage != nil && s.Now-n.Usage.At > v.store.config.MaxAge.Seconds() {
			n.Usage = nil
		}
		r.followPower(n)
	}
	if key, belongs := workloadOf(pending); belongs {
		pod.Usage = table.Workloads[key]
	}
}

// follow makes r the row of a node that changed. The pods that the row knew keep their times.
func (v *View) follow(r *viewRow, n *cluster.Node, info fwk.NodeInfo, now float64) {
	if r.node == nil || r.node.Name != n.Name {
		r.recent = nil // another node, or the first decision
	}
	before := r.recent
	r.node, r.measured, r.recent = n, v.table.Nodes[n.Name], nil
	for _, p := range info.GetPods() {
		pod := p.GetPod()
		if i := slices.IndexFunc(before, func(b recentPod) bool { return b.uid == pod.UID }); i >= 0 {
			r.recent = append(r.recent, before[i])
		} else if at := boundAt(pod, now); at > now-cluster.UsageWindow {
			key, _ := workloadOf(pod)
			requests := p.CalculateResource().Resource
			r.recent = append(r.recent, recentPod{pod.UID, key, cluster.RecentPod{
				At: at, Requests: cluster.Resources{MilliCPU: requests.GetMilliCPU(), Memory: requests.GetMemory(), Pods: 1}, Limits: kube.Limits(pod),
			}})
		}
	}
	slices.SortStableFunc(r.recent, func(a, b recentPod) int { return cmp.Compare(a.At, b.At) })
}

// followPower gives a node a new version if its machine's calibrated model is another than at the last decision. Caches go
// by the version.
func (r *viewRow) followPower(n *cluster.Node) {
	var now *cluster.PowerModel
	if n.Usage != nil {
		now = n.Usage.Power
	}
	if now != r.power {
		r.power, n.Version = now, cluster.NextVersion()
	}
}

// boundAt returns when a pod was bound: its condition's time, or now if it has none yet. The condition's time comes from the API server,
// whose clock may be ahead.
func boundAt(pod *v1.Pod, now float64) float64 {
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == v1.PodScheduled && c.Status == v1.ConditionTrue {
			return min(seconds(c.LastTransitionTime.Time), now)
		}
	}
	return now
}

// usage returns the usage of the row's node: the measured one, and the pods that the measurement lacks. It drops the pods that later
// measurements include.
func (v *View) usage(r *viewRow, now float64) *cluster.NodeUsage {
	r.recent = slices.DeleteFunc(r.recent, func(p recentPod) bool {
		return p.At <= now-cluster.UsageWindow && (r.measured == nil || p.At <= r.measured.At-cluster.UsageWindow)
	})
	if r.measured == nil || len(r.recent) == 0 {
		return r.measured
	}
	u := *r.measured
	u.Version = cluster.NextVersion()
	u.Recent = make([]cluster.RecentPod, len(r.recent))
	for i, p := range r.recent {
		u.Recent[i] = p.RecentPod
		expected := cluster.Pod{Requests: p.Requests, Usage: v.table.Workloads[p.workload]}
		u.Recent[i].Expected = expected.ExpectedAll()
	}
	u.Expect(func(p *cluster.RecentPod) float64 { return cluster.MissingShare(u.At, p.At) })
	return &u
}
