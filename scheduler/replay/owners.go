package replay

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"gnnsched/scheduler/memcluster"
	"gnnsched/workload/record"
)

// owners lets the owners of pods react to a course. They have as many pods at a time as in the record, but not the same ones:
//
//   - A pod that loses its node is gone. Its owner makes a new one, as far as it does so and a Job has tries left.
//   - Where a ReplicaSet really lost a pod, it loses the one that its controller would choose here.
//   - A rollout goes on as in the record, until too few pods run: then old pods stay, and no more new pods come than maxSurge allows.
//   - A Job has at most as many pods at once as its parallelism.
//   - With an autoscaler, pods that were really evicted go on: the nodes that they had to leave are not there.
//
// Each pod of the record has an end there. The pod that meets this end in the course may be another one of its owner.
type owners struct {
	*course
	withPods []*ownerPods
	of       []*ownerPods // by row of a pod; nil: the record lacks its owner
	end      []int        // by row of a pod: the row whose recorded end it meets
	who      []int        // by row of the record: the pod that meets its end; -1: none
	really   []bool       // by row of the record: whether it is there in the record now
	next     map[int]int  // by row of the record that was evicted: the one that was made in its place
	before   map[int]int  // the reverse
	stalled  []*ownerPods // with events that wait
}

// ownerPods is an owner and its pods.
type ownerPods struct {
	record.Owner
	live   []int   // rows of the pods that are there, the oldest first
	held   []event // ends and arrivals that wait until other pods run
	target string  // the ReplicaSet of the template to which a Deployment goes
	tries  int64   // how many more pods of a Job may be lost
	failed bool    // a Job has no try left
	really int     // pods that it has in the record now
	at     int64   // until when off and owned count

	// A controller chooses at once which pods go for a number of replicas: ranks counts its pods by node at that time.
	ranks    map[string]int
	ranked   *record.Scale // that number
	rankedAt int64

	off   float64 // milliseconds of pods that it has here and not in the record, or the reverse
	owned float64 // milliseconds of pods in the record
}

// newOwners returns the owners of a course; nil if the record knows none.
func newOwners(p *course) *owners {
	list, notes := record.Owners(p.source.Pods, p.source.Objects)
	if len(list) == 0 {
		return nil
	}
	p.out.Notes = append(p.out.Notes, notes...)
	n := len(p.source.Pods)
	p.source.Pods = slices.Clip(p.source.Pods) // new pods go to a copy
	o := &owners{course: p, of: make([]*ownerPods, n), end: make([]int, n), who: make([]int, n), really: make([]bool, n),
		next: map[int]int{}, before: map[int]int{}}
	tries := triesOf(p.source)
	for i := range list {
		c := &ownerPods{Owner: list[i], at: p.now, tries: math.MaxInt32}
		switch c.Kind {
		case record.KindDeployment, record.KindReplicaSet, record.KindStatefulSet:
		case record.KindJob:
			if left, known := tries[owner{c.Kind, c.Namespace, c.Name}]; known {
				c.tries = left
			}
		default:
			continue
		}
		o.withPods = append(o.withPods, c)
		for _, row := range c.Pods {
			if r := &p.source.Pods[row]; o.of[row] == nil && !r.Daemon {
				o.of[row] = c
				if r.Arrived <= p.now {
					c.target = r.OwnerName
				}
			}
		}
	}
	for _, c := range o.withPods {
		o.pair(c)
	}
	strangers, first := 0, ""
	for i := range n {
		o.end[i], o.who[i] = i, i
		r := &p.source.Pods[i]
		if o.of[i] == nil && !r.Daemon && (r.OwnerKind == record.KindJob || record.Makes(r.OwnerKind)) {
			strangers, first = strangers+1, cmp.Or(first, r.Namespace+"/"+r.Name+" of "+r.OwnerKind+" "+r.OwnerName)
		}
	}
	if strangers > 0 {
		p.out.Notes = append(p.out.Notes, fmt.Sprintf(
			"%d pods, such as %s, have owners that the record lacks; all that is known of these is that they make pods anew", strangers, first))
	}
	return o
}

const (
	madeEarly = 10 * 60 * 1000 // milliseconds that a pod may take to end, while its ReplicaSet has made another one
	madeLate  = 60 * 1000      // milliseconds after which another one is not in its place
)

// pair finds the pods that were really evicted, and what was made in their place. Where an autoscaler decides on the nodes, the reason of
// the eviction is not there: such a pod goes on instead of the next. Otherwise, one that is evicted here too is followed by its next pod.
func (o *owners) pair(c *ownerPods) {
	pods := map[string][]int{} // rows by arrival, by ReplicaSet or by the pod's name
	var evicted []int
	key := func(row int) string {
		if c.Kind == record.KindStatefulSet {
			return o.source.Pods[row].Name
		}
		return o.source.Pods[row].OwnerName
	}
	for _, row := range c.Pods {
		r := &o.source.Pods[row]
		if o.of[row] != c || c.Kind == record.KindJob && o.fleet != nil { // whose next pod has its own work
			continue
		}
		pods[key(row)] = append(pods[key(row)], row)
		if r.Ended > o.source.From && (r.End == record.Evicted || r.End == record.Preempted) {
			evicted = append(evicted, row)
		}
	}
	slices.SortStableFunc(evicted, func(a, b int) int { return cmp.Compare(o.source.Pods[a].Ended, o.source.Pods[b].Ended) })
	for _, x := range evicted {
		if row := o.madeFor(x, pods[key(x)]); row >= 0 {
			o.next[x], o.before[row] = row, x
		}
	}
}

// madeFor returns which of some pods, by arrival, was made in place of an evicted one: the one that arrived nearest to its end; -1: none.
func (o *owners) madeFor(evicted int, pods []int) int {
	gone, best, off := o.source.Pods[evicted].Ended, -1, int64(math.MaxInt64)
	first, _ := slices.BinarySearchFunc(pods, gone-madeEarly, func(row int, at int64) int {
		return cmp.Compare(o.source.Pods[row].Arrived, at)
	})
	for _, row := range pods[first:] {
		r := &o.source.Pods[row]
		if r.Arrived > gone+madeLate {
			break
		}
		_, taken := o.before[row]
		finishes := o.fleet != nil && (r.End == record.Succeeded || r.End == record.Failed) // an end that no other pod can meet
		apart := max(r.Arrived-gone, gone-r.Arrived)
		if row > evicted && !taken && !finishes && (r.Ended == 0 || r.Ended > gone) && apart < off {
			best, off = row, apart
		}
	}
	return best
}

// triesOf returns how many more pods of each Job may be lost after all that really failed.
func triesOf(s *Source) map[owner]int64 {
	out, from := map[owner]int64{}, map[owner]int64{}
	for i := range s.Objects {
		x, left := &s.Objects[i], int64(0)
		k := owner{x.Kind, x.Namespace, x.Name}
		if x.Kind == record.KindJob && x.Spec != "" && x.From < s.To && x.From >= from[k] && record.ReadColumn(x.Spec, &left) == nil {
			out[k], from[k] = left, x.From
		}
	}
	return out
}

// asks returns what the owner asks for at a time; nil if it is not there.
func (c *ownerPods) asks(at int64) *record.Scale {
	for i := len(c.States) - 1; i >= 0; i-- {
		switch s := &c.States[i]; {
		case s.From <= at && s.Gone && s.To <= at:
			return nil
		case s.From <= at:
			return &s.Scale
		}
	}
	return &c.States[0].Scale // it was seen later than its pods
}

// bounds returns how many pods a rollout keeps running at least, and how many it has at most. ok is false if it keeps no such bounds.
func (c *ownerPods) bounds(at int64) (least, most int, ok bool) {
	s := c.asks(at)
	if s == nil || s.Replicas == nil || s.Strategy != "RollingUpdate" {
		return 0, 0, false
	}
	share := func(text, otherwise string, up bool) int {
		x := intstr.Parse(cmp.Or(text, otherwise))
		n, err := intstr.GetScaledValueFromIntOrPercent(&x, int(*s.Replicas), up)
		if err != nil {
			return 0
		}
		return n
	}
	surge, lack := 0, max(share(s.MaxUnavailable, "1", true), 1)
	if c.Kind == record.KindDeployment {
		if surge, lack = share(s.MaxSurge, "25%", true), share(s.MaxUnavailable, "25%", false); surge == 0 {
			lack = max(lack, 1)
		}
	}
	return int(*s.Replicas) - lack, int(*s.Replicas) + surge, true
}

// replaced reports whether a rollout takes the pod of a row away, and not an owner that wants fewer pods.
func (c *ownerPods) replaced(r *record.Pod, at int64) bool {
	switch c.Kind {
	case record.KindDeployment:
		return r.OwnerName != c.target
	case record.KindStatefulSet:
		s := c.asks(at)
		ordinal, err := strconv.Atoi(r.Name[strings.LastIndexByte(r.Name, '-')+1:])
		return err == nil && s != nil && s.Replicas != nil && ordinal < int(*s.Replicas)
	}
	return false
}

// tally counts the time until now, before the owner's pods change.
func (o *owners) tally(c *ownerPods) {
	ms := float64(o.source.Watched(c.at, o.now))
	c.off += ms * math.Abs(float64(len(c.live)-c.really))
	c.owned += ms * float64(c.really)
	c.at = o.now
}

// was counts a pod that came in the record, or ended there.
func (o *owners) was(row int, there bool) {
	if row >= len(o.really) || o.really[row] == there || o.of[row] == nil {
		return
	}
	c := o.of[row]
	o.tally(c)
	if o.really[row] = there; there {
		c.really++
	} else {
		c.really--
	}
}

// comes adds a pod.
func (o *owners) comes(row int) {
	if c := o.of[row]; c != nil {
		o.tally(c)
		c.live = append(c.live, row)
	}
}

// goes takes a pod away, which met its end.
func (o *owners) goes(row int) {
	o.who[o.end[row]] = -1
	if c := o.of[row]; c != nil {
		o.tally(c)
		c.live = slices.DeleteFunc(c.live, func(x int) bool { return x == row })
	}
}

// hold lets an event wait until other pods run.
func (o *owners) hold(c *ownerPods, e event) {
	if c.held = append(c.held, e); !slices.Contains(o.stalled, c) {
		o.stalled = append(o.stalled, c)
	}
}

// arrives reports whether a pod of the record comes now. If not, it waits for other pods of its owner, or never comes.
func (o *owners) arrives(e event) bool {
	c := o.of[e.row]
	if c == nil {
		return true
	}
	if before, evicted := o.before[e.row]; evicted && o.fleet != nil && (o.who[before] >= 0 || o.who[e.row] != e.row) {
		return false
	}
	if c.target = o.source.Pods[e.row].OwnerName; c.failed {
		o.who[e.row] = -1
		o.out.Unmade++
		return false
	}
	if e.at > o.source.From && !o.room(c) {
		o.hold(c, e)
		return false
	}
	o.comes(e.row)
	return true
}

// room reports whether an owner makes one more pod of the record now.
func (o *owners) room(c *ownerPods) bool {
	if c.Kind == record.KindJob {
		s := c.asks(o.now)
		return s == nil || s.Parallelism == nil || len(c.live) < int(*s.Parallelism)
	}
	if !slices.ContainsFunc(c.held, func(e event) bool { return e.kind == podEnds }) {
		return true
	}
	_, most, rolls := c.bounds(o.now)
	return !rolls || len(c.live) < most
}

// meets returns the pod that meets the recorded end of a row; -1 if none does. later is true if a rollout waits with it.
func (o *owners) meets(e event) (row int, later bool) {
	row = o.who[e.row]
	if row < 0 || o.of[row] == nil {
		return row, false
	}
	if next, evicted := o.next[e.row]; evicted && o.fleet != nil {
		o.end[row], o.who[next], o.who[e.row] = next, row, -1
		return -1, false
	}
	c, r := o.of[row], &o.source.Pods[e.row]
	if r.End == record.Deleted && r.OwnerKind == record.KindReplicaSet {
		if s := c.asks(o.now); s != nil && s.Replicas != nil && *s.Replicas > 0 {
			row = o.exchange(row, o.victim(c, row))
		}
	}
	if i := slices.IndexFunc(c.held, func(h event) bool { return h.kind == podArrives && h.row == row }); i >= 0 { // it was not made yet
		c.held = slices.Delete(c.held, i, i+1)
		o.out.Unmade++
		o.who[e.row] = -1
		return -1, false
	}
	return row, r.End == record.Deleted && c.replaced(r, o.now) && !o.spares(c, row)
}

// spares reports whether enough pods of an owner run for a rollout to take one away. One that waits counts as running until then.
func (o *owners) spares(c *ownerPods, row int) bool {
	least, _, rolls := c.bounds(o.now)
	if !rolls {
		return true
	}
	n := 0
	_, waits := o.since[row]
	for _, x := range c.live {
		_, other := o.since[x]
		n += count(!other || waits && o.source.Pods[x].OwnerName == o.source.Pods[row].OwnerName)
	}
	return n > least
}

// exchange lets a pod meet the end of another one, which meets its end, and returns it.
func (o *owners) exchange(row, victim int) int {
	o.end[row], o.end[victim] = o.end[victim], o.end[row]
	o.who[o.end[row]], o.who[o.end[victim]] = row, victim
	return victim
}

// victim returns the pod that a ReplicaSet takes away where it really took away one: a pod that it did not make yet, else one that waits,
// else the one of the least deletion cost, on the node that had most pods of the owner when it began to want fewer; among equals the one
// that really went, else the youngest.
func (o *owners) victim(c *ownerPods, row int) int {
	set := o.source.Pods[row].OwnerName
	for _, e := range slices.Backward(c.held) {
		if e.kind == podArrives && o.source.Pods[e.row].OwnerName == set {
			return e.row
		}
	}
	nodes, costs, on := map[int]string{}, map[int]float64{row: math.Inf(-1)}, map[string]int{}
	for _, x := range c.live {
		costs[x] = math.Inf(-1) // it has no node, or one that is gone
		if p := o.Running[types.UID(o.source.Pods[x].UID)]; p != nil && o.nodes[p.Spec.NodeName] != nil {
			nodes[x], costs[x] = p.Spec.NodeName, o.deletionCost(x, p.Spec.NodeName)
			on[p.Spec.NodeName]++
		}
	}
	if want := c.asks(o.now); c.ranked != want || o.now-c.rankedAt > madeEarly || c.replaced(&o.source.Pods[row], o.now) {
		c.ranks, c.ranked, c.rankedAt = on, want, o.now
	}
	on = c.ranks
	best := row
	for _, x := range slices.Backward(c.live) {
		sooner := cmp.Or(cmp.Compare(costs[x], costs[best]), cmp.Compare(on[nodes[best]], on[nodes[x]])) < 0
		if sooner && o.source.Pods[x].OwnerName == set && !o.runsItsTime(x) {
			best = x
		}
	}
	return best
}

// deletionCost returns what a pod on a node costs to delete.
func (o *owners) deletionCost(row int, node string) float64 {
	cost := o.source.Pods[row].DeletionCost
	if s := o.config.Scaling; cost == 0 && o.fleet != nil && s.DeletionCosts {
		return o.fleet.there[node].Utilisation()
	}
	return float64(cost)
}

// anew returns the pod that an owner makes in place of one that lost its node; nil if none does.
func (o *owners) anew(pod *v1.Pod) *v1.Pod {
	row := o.rows[pod.UID]
	r, c, end := o.source.Pods[row], o.of[row], o.end[row]
	o.goes(row)
	if _, evicted := o.next[end]; evicted && o.fleet == nil && o.source.Pods[end].Ended-o.now < madeEarly {
		return nil // as in the record
	}
	makes := record.Makes(r.OwnerKind)
	if r.OwnerKind == record.KindJob {
		makes = c == nil || c.try()
		if !makes {
			o.out.FailedJobs++
			o.stalled = append(o.stalled, c) // the Job's other pods end when this time is settled
		}
	}
	if !makes {
		o.out.Abandoned++
		if o.fleet != nil {
			o.fleet.budgets.gone(pod)
		}
		return nil
	}
	n := len(o.source.Pods)
	first, _, _ := strings.Cut(r.UID, "/")
	r.UID = fmt.Sprintf("%s/%d", first, n)
	o.source.Pods, o.of, o.end = append(o.source.Pods, r), append(o.of, c), append(o.end, end)
	o.rows[types.UID(r.UID)], o.again[n], o.since[n], o.began[n] = n, true, o.now, o.now
	if !o.runsItsTime(n) {
		o.who[end] = n
	}
	o.comes(n)
	out := memcluster.On(pod, "")
	out.UID, out.CreationTimestamp = types.UID(r.UID), metav1.NewTime(time.UnixMilli(o.now))
	return out
}

// try takes a try of a Job, and reports whether there was one. Without, the Job fails.
func (c *ownerPods) try() bool {
	c.tries--
	c.failed = c.tries < 0
	return !c.failed
}

// goOn lets owners go on that waited for pods, and ends the pods of Jobs that failed. It reports whether anything happened.
func (o *owners) goOn() (did bool) {
	for _, c := range o.stalled {
		if c.failed {
			did = did || len(c.live) > 0
			for _, row := range slices.Clone(c.live) {
				o.remove(row)
			}
			o.out.Unmade += len(c.held)
			c.held = nil
		}
		for i := 0; i < len(c.held); {
			if !o.happensNow(c, c.held[i]) {
				i++
				continue
			}
			did, i = true, 0
		}
	}
	o.stalled = slices.DeleteFunc(o.stalled, func(c *ownerPods) bool { return len(c.held) == 0 })
	return did
}

// happensNow lets an event happen that was held, if it may.
func (o *owners) happensNow(c *ownerPods, e event) bool {
	row := e.row
	if e.kind == podArrives {
		if !o.room(c) {
			return false
		}
		o.comes(row)
		o.queue(row)
	} else {
		var later bool
		if row, later = o.meets(e); later {
			return false
		}
		if row >= 0 {
			o.remove(row)
		}
	}
	c.held = slices.DeleteFunc(c.held, func(h event) bool { return h == e })
	return true
}

// finish counts what happened until the end.
func (o *owners) finish() {
	for _, c := range o.withPods {
		o.tally(c)
		o.out.OwnedHours += c.owned / 3.6e6
		o.out.OffHours += c.off / 3.6e6
		for _, e := range c.held {
			o.out.Unmade += count(e.kind == podArrives)
		}
	}
}
