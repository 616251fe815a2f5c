package plan

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"

	"gnnsched/scheduler/memcluster"
	"gnnsched/scheduler/replay"
	"gnnsched/workload/record"
)

// Loss lists the pods without a node before and after a cluster loses nodes.
type Loss struct {
	Profile string     `json:"profile"`
	Before  []Unplaced `json:"before"`
	After   []Unplaced `json:"after"`
}

// Unplaced is a pod that gets no node.
type Unplaced struct {
	Pod      string `json:"pod"`
	Workload string `json:"workload,omitempty"`
	Why      string `json:"why"` // upstream's reasons, each with its number of nodes
}

// Lost describes what goes with nodes, for any profile.
type Lost struct {
	Nodes     int      `json:"nodes"` // of the cluster before
	Lost      []string `json:"lost"`
	Displaced int      `json:"displaced"`  // pods that their controllers replace
	Bare      []string `json:"bare"`       // pods without a controller, which are not replaced
	EmptyDirs int      `json:"empty_dirs"` // displaced pods that lose the data of their emptyDir volumes
	// Unjudged are displaced pods with claims of volumes, hostPath volumes, ResourceClaims or shares of a GPU. They are placed as if they
	// had none.
	Unjudged int `json:"unjudged"`
	// Unknown counts displaced pods for which the record does not tell any of these except claims of volumes.
	Unknown int `json:"unknown"`
}

// Lose returns the source without the nodes that gone selects at the end of its window. The pods on them wait there, except pods that are
// not replaced.
func Lose(s replay.Source, gone func(*record.Node) bool) (replay.Source, Lost) {
	out := Lost{Lost: []string{}, Bare: []string{}}
	lost := map[string]bool{}
	for i := range s.Nodes {
		n := &s.Nodes[i]
		if n.From >= s.To || n.To != 0 && n.To < s.To {
			continue
		}
		out.Nodes++
		if gone(n) {
			lost[n.Name] = true
			out.Lost = append(out.Lost, n.Name)
		}
	}
	slices.Sort(out.Lost)
	s.Nodes = slices.DeleteFunc(slices.Clone(s.Nodes), func(n record.Node) bool { return lost[n.Name] })
	pods := make([]record.Pod, 0, len(s.Pods))
	for _, p := range s.Pods {
		if !present(&p, &s) || !lost[p.Node] {
			pods = append(pods, p)
			continue
		}
		switch {
		case p.Daemon, p.HealthAt(s.To-1) == record.Terminating: // its controller has made another one
		case p.OwnerKind == "":
			out.Bare = append(out.Bare, p.Namespace+"/"+p.Name)
		default:
			out.Displaced++
			out.count(&p)
			p.Bound, p.Node = 0, ""
			pods = append(pods, p)
		}
	}
	s.Pods = pods
	return s, out
}

// count counts the resources that a displaced pod held.
func (l *Lost) count(p *record.Pod) {
	holds, known := listOf(p.Holds)
	switch {
	case p.Claims != "" || p.GPUMilli > 0 || slices.Contains(holds, record.HoldsDevices) || slices.Contains(holds, record.HoldsHostPath):
		l.Unjudged++
	case !known:
		l.Unknown++
	}
	if slices.Contains(holds, record.HoldsEmptyDir) {
		l.EmptyDirs++
	}
}

// present reports whether a pod is there at the end of the window.
func present(p *record.Pod, s *replay.Source) bool {
	return p.Arrived < s.To && (p.Ended == 0 || p.Ended >= s.To)
}

// unplaceable lets the profile place the pods that wait at the end of the window, higher priorities first and with preemption. It returns
// the pods without a node, by name.
func unplaceable(ctx context.Context, s replay.Source, profile config.KubeSchedulerProfile) ([]Unplaced, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the plugins
	cluster, _, err := replay.End(ctx, s, profile)
	if err != nil {
		return nil, err
	}
	rows := map[types.UID]*record.Pod{}
	var queue []*v1.Pod
	for i := range s.Pods {
		r := &s.Pods[i]
		rows[types.UID(r.UID)] = r
		if !r.Daemon && present(r, &s) && cluster.Running[types.UID(r.UID)] == nil {
			queue = append(queue, replay.Pod(r))
		}
	}
	out := []Unplaced{}
	cluster.Follow = refusing{cluster.Follow, func(p *v1.Pod, why error) {
		out = append(out, Unplaced{nameOf(p), rows[p.UID].Workload, "the scheduler's plugins cannot read it: " + why.Error()})
	}}
	for _, p := range queue {
		cluster.Wait(p)
	}
	if err := cluster.Settle(ctx); err != nil {
		return nil, err
	}
	for _, p := range cluster.Waiting {
		why, err := refusals(ctx, cluster, p)
		if err != nil {
			return nil, err
		}
		out = append(out, Unplaced{nameOf(p), rows[p.UID].Workload, why})
	}
	slices.SortFunc(out, func(a, b Unplaced) int { return cmp.Compare(a.Pod, b.Pod) })
	return out, nil
}

// refusing is a follower that reports the pods that the plugins cannot handle.
type refusing struct {
	memcluster.Follower
	each func(pod *v1.Pod, why error)
}

// Refused implements memcluster.Follower.
func (r refusing) Refused(pod *v1.Pod, why error) { r.each(pod, why) }

// refusals counts why the nodes refuse a pod.
func refusals(ctx context.Context, cluster *memcluster.Placements, p *v1.Pod) (string, error) {
	choice, err := cluster.Choose(ctx, p)
	if err != nil {
		return "", err
	}
	reasons := map[string]int{}
	for _, r := range choice.Refused {
		reasons[r]++
	}
	return fmt.Sprintf("0 of %d nodes take it%s", len(choice.Refused), list(reasons)), nil
}

// busiest returns the time in the window, in milliseconds since 1970, at which the present pods, running or waiting, request the largest
// share of the nodes' CPU or memory: the last millisecond before that changes. Pods that belong to their node do not count. It is the end
// of the window unless another time is busier.
func busiest(s replay.Source) int64 {
	type change struct {
		at          int64
		cpu, memory int64 // that pods request
		cores, room int64 // that nodes offer
	}
	var all []change
	add := func(from, to int64, c change) {
		if from >= s.To || to != 0 && to <= s.From {
			return
		}
		c.at = max(from, s.From)
		all = append(all, c)
		if to != 0 && to < s.To {
			all = append(all, change{to, -c.cpu, -c.memory, -c.cores, -c.room})
		}
	}
	for _, n := range s.Nodes {
		add(n.From, n.To, change{cores: n.MilliCPU, room: n.Memory})
	}
	for _, p := range s.Pods {
		if !p.Daemon {
			add(p.Arrived, p.Ended, change{cpu: p.MilliCPU, memory: p.Memory})
		}
	}
	slices.SortStableFunc(all, func(a, b change) int { return cmp.Compare(a.at, b.at) })
	var now change
	best, most, share := s.To-1, 0.0, 0.0
	for i, c := range all {
		now = change{c.at, now.cpu + c.cpu, now.memory + c.memory, now.cores + c.cores, now.room + c.room}
		until := s.To
		if i+1 < len(all) {
			until = all[i+1].at
		}
		if until == c.at || now.cores <= 0 || now.room <= 0 {
			continue
		}
		if share = max(float64(now.cpu)/float64(now.cores), float64(now.memory)/float64(now.room)); share > most {
			best, most = until-1, share
		}
	}
	if share >= most {
		return s.To - 1
	}
	return best
}

// Profile is a profile of kube-scheduler with the name that results have.
type Profile struct {
	Name string
	config.KubeSchedulerProfile
}

// Losses are the effects on a cluster that loses nodes: at the end of the record, and at its busiest time if that is another one.
type Losses struct {
	Times []LossAt `json:"times"`
	Notes []string `json:"notes,omitempty"`
}

// LossAt is the effect of a loss at a time.
type LossAt struct {
	At       time.Time `json:"at"`
	What     string    `json:"what"` // which time this is
	Lost     `json:"cluster"`
	Profiles []Loss `json:"profiles"`
}

// Without removes the nodes that gone selects, at the end of the source's window and at its busiest time. Each profile places the waiting
// pods and the pods that were on these nodes. All others stay where they are. progress gets the fraction of the work that is done.
func Without(
	ctx context.Context, s replay.Source, gone func(*record.Node) bool, profiles []Profile, progress func(done float64),
) (Losses, error) {
	out := Losses{Notes: s.Notes}
	times, names := []int64{s.To - 1}, []string{"the time of the plan"}
	if busy := busiest(s); busy != s.To-1 {
		times, names = append(times, busy), append(names, "the busiest time")
	}
	for i, t := range times {
		then := s
		then.To = t + 1
		at := LossAt{At: time.UnixMilli(t).UTC(), What: names[i]}
		var less replay.Source
		less, at.Lost = Lose(then, gone)
		for k, p := range profiles {
			share := float64(i*len(profiles)+k) / float64(len(times)*len(profiles))
			progress(share)
			l := Loss{Profile: p.Name}
			var err error
			if l.Before, err = unplaceable(ctx, then, p.KubeSchedulerProfile); err != nil {
				return out, fmt.Errorf("%s: %w", p.Name, err)
			}
			if l.After, err = unplaceable(ctx, less, p.KubeSchedulerProfile); err != nil {
				return out, fmt.Errorf("%s: %w", p.Name, err)
			}
			at.Profiles = append(at.Profiles, l)
		}
		out.Times = append(out.Times, at)
	}
	return out, nil
}
