package plugin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"gnnsched/scheduler/decision"
)

// WatchFailures makes the scheduler count refusals in the state of each scheduling cycle, and hand a decision of each attempt
// that found no node to failed. It must be called before the scheduler runs.
func WatchFailures(s *scheduler.Scheduler, failed func(decision.Decision)) {
	for name, profile := range s.Profiles {
		s.Profiles[name] = &refusalWatch{profile}
	}
	inner := s.FailureHandler
	s.FailureHandler = func(ctx context.Context, f framework.Framework, pod *framework.QueuedPodInfo, status *fwk.Status,
		nominating *fwk.NominatingInfo, start time.Time) {
		if d, is := refusalOf(pod.Pod, status, nominating); is {
			d.Profile, d.At = f.ProfileName(), start
			failed(d)
		}
		inner(ctx, f, pod, status, nominating, start)
	}
}

// CountRefusals returns the profile with filters that count refusals in the state of each cycle, for callers that run no
// scheduler.
func CountRefusals(profile framework.Framework) framework.Framework { return &refusalWatch{profile} }

// RefusalsByReason groups the reasons of nodes by their names, where PreFilter plugins refused all nodes and Of has nothing.
func RefusalsByReason(refused map[string]string) []decision.Refusal {
	var g refusalGroups
	for _, node := range slices.Sorted(maps.Keys(refused)) {
		g.add(decision.Refusal{Reason: refused[node], Nodes: 1})
	}
	return g.sorted()
}

// refusalWatch is a profile whose filters are watched.
type refusalWatch struct{ framework.Framework }

const refusalsKey = fwk.StateKey("gnnsched/refusals")

// refusalCounts are the refusals of one scheduling cycle.
type refusalCounts struct {
	mu    sync.Mutex // filters run in parallel
	found refusalGroups
}

// Clone implements fwk.StateData. Copies belong to trials, such as preemption's, which are no refusals.
func (c *refusalCounts) Clone() fwk.StateData { return &refusalCounts{} }

// RunPreFilterPlugins implements framework.Framework. It begins the counts of a cycle.
func (w *refusalWatch) RunPreFilterPlugins(ctx context.Context, state fwk.CycleState,
	pod *v1.Pod) (*fwk.PreFilterResult, *fwk.Status, sets.Set[string]) {
	result, status, by := w.Framework.RunPreFilterPlugins(ctx, state, pod)
	c := &refusalCounts{}
	if status.IsSuccess() && !result.AllNodes() {
		if all, err := w.SnapshotSharedLister().NodeInfos().List(); err == nil {
			c.found.add(leftOut(sets.List(by), max(len(all)-len(result.NodeNames), 0)))
		}
	}
	state.Write(refusalsKey, c)
	return result, status, by
}

// leftOut is the refusal of nodes that PreFilter plugins left out.
func leftOut(by []string, nodes int) decision.Refusal {
	plugin := "several"
	if len(by) == 1 {
		plugin = by[0]
	}
	return decision.Refusal{Plugin: plugin, Reason: "node(s) didn't satisfy plugin(s) [" + strings.Join(by, " ") + "]", Nodes: nodes}
}

// RunFilterPluginsWithNominatedPods implements framework.Framework. It counts a refusal.
func (w *refusalWatch) RunFilterPluginsWithNominatedPods(ctx context.Context, state fwk.CycleState,
	pod *v1.Pod, info fwk.NodeInfo) *fwk.Status {
	status := w.Framework.RunFilterPluginsWithNominatedPods(ctx, state, pod, info)
	if status.IsSuccess() {
		return status
	}
	if data, err := state.Read(refusalsKey); err == nil {
		c := data.(*refusalCounts)
		c.mu.Lock()
		c.found.status(status, 1)
		c.mu.Unlock()
	}
	return status
}

// RefusalsOf returns the refusals of a scheduling cycle, the most frequent first; nil if nobody watches.
func RefusalsOf(state fwk.CycleState) []decision.Refusal {
	data, err := state.Read(refusalsKey)
	if err != nil {
		return nil
	}
	c := data.(*refusalCounts)
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.found.sorted()
}

// refusalGroups are refusals by plugin and reason.
type refusalGroups struct {
	list []decision.Refusal
	last int // in list, of the refusal that was counted last: neighbours are mostly refused for the same reason
}

// maxGroups bounds the groups. Reasons may quote what pods' owners wrote, such as the names of claims.
const maxGroups = 32

// status counts nodes that a filter refused, once for all its reasons together.
func (g *refusalGroups) status(s *fwk.Status, nodes int) {
	g.add(decision.Refusal{Plugin: s.Plugin(), Reason: strings.Join(s.Reasons(), ", "), Nodes: nodes})
}

func (g *refusalGroups) add(r decision.Refusal) {
	if r.Nodes == 0 {
		return
	}
	same := func(o decision.Refusal) bool { return o.Reason == r.Reason && o.Plugin == r.Plugin }
	if g.last < len(g.list) && same(g.list[g.last]) {
		g.list[g.last].Nodes += r.Nodes
		return
	}
	g.last = slices.IndexFunc(g.list, same)
	switch {
	case g.last >= 0:
		g.list[g.last].Nodes += r.Nodes
	case len(g.list) < maxGroups:
		g.last, g.list = len(g.list), append(g.list, r)
	default: // the last group takes all others
		g.last = maxGroups - 1
		g.list[g.last] = decision.Refusal{Reason: "other reasons", Nodes: g.list[g.last].Nodes + r.Nodes}
	}
}

func (g *refusalGroups) sorted() []decision.Refusal {
	out := slices.Clone(g.list)
	slices.SortFunc(out, func(a, b decision.Refusal) int {
		return cmp.Or(cmp.Compare(b.Nodes, a.Nodes), cmp.Compare(a.Plugin, b.Plugin), cmp.Compare(a.Reason, b.Reason))
	})
	return out
}

// refusalOf returns the decision of an attempt that found no node. is is false for an attempt that found one and
// failed later: reserving or binding leaves a decision of its own.
func refusalOf(pod *v1.Pod, status *fwk.Status, nominating *fwk.NominatingInfo) (d decision.Decision, is bool) {
	err := status.AsError()
	fit := (*framework.FitError)(nil)
	if !errors.As(err, &fit) && !errors.Is(err, scheduler.ErrNoNodesAvailable) {
		return d, false
	}
	d.Pod = decision.Pod{Namespace: pod.Namespace, Name: pod.Name, UID: string(pod.UID)}
	if nominating != nil {
		d.Nominated = nominating.NominatedNodeName
	}
	if fit == nil {
		d.Failure = err.Error()
		return d, true
	}
	d.Nodes, d.Failure = fit.NumAllNodes, fitMessage(fit)
	var g refusalGroups
	g.diagnosis(&fit.Diagnosis, fit.NumAllNodes)
	d.Refused = g.sorted()
	return d, true
}

// fitMessage is upstream's message without the second "0/7 nodes are available" in what preemption said.
func fitMessage(fit *framework.FitError) string {
	none := fmt.Sprintf(framework.NoNodeAvailableMsg, fit.NumAllNodes)
	said := strings.TrimPrefix(fit.Error(), none)
	return none + strings.ReplaceAll(said, none+": ", "")
}

// diagnosis counts the refusals in upstream's diagnosis of a pod that fits on none of the nodes.
func (g *refusalGroups) diagnosis(d *framework.Diagnosis, nodes int) {
	named := d.NodeToStatus.Len()
	d.NodeToStatus.ForEachExplicitNode(func(_ string, s *fwk.Status) { g.status(s, 1) })
	if absent := d.NodeToStatus.AbsentNodesStatus(); nodes > named {
		if absent.Plugin() == "" && d.PreFilterMsg == "" {
			g.add(leftOut(sets.List(d.UnschedulablePlugins), nodes-named))
			return
		}
		g.status(absent, nodes-named)
	}
}
