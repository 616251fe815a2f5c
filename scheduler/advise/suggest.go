package advise

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/kube"
	"gnnsched/scheduler/plugin"
)

// Suggestion ranks the nodes for a pod. Its lists are not nil.
type Suggestion struct {
	Decider
	Took     float64     `json:"decisionSeconds"` // of the decider
	Nodes    []Suggested `json:"nodes"`           // on which the pod fits, the best first
	Refusals []Refusal   `json:"refusals"`        // the other nodes, the most frequent reason first
}

// Decider says what decides.
type Decider struct {
	Policy string `json:"policy,omitempty"`
	// of the network's checkpoint, as the log has it; empty for a heuristic, or without a network
	Fingerprint string `json:"fingerprint,omitempty"`
}

func deciderOf(n plugin.Network) Decider {
	d := Decider{Policy: n.Policy}
	if n.Fingerprint != 0 {
		d.Fingerprint = fmt.Sprintf("%016x", n.Fingerprint)
	}
	return d
}

// Suggested is a node on which the pod fits.
type Suggested struct {
	Node      string   `json:"node"`
	Score     int8     `json:"score"`     // 0 to 100
	Raw       float32  `json:"rawScore"`  // the decider's own score; 0 if the node is not Preferred
	Preferred bool     `json:"preferred"` // whether the preferences of manifests leave the node to the decider
	Reasons   []string `json:"reasons"`
	CPU       Share    `json:"cpu"`
	Memory    Share    `json:"memory"`
}

// Share is the part of a node's allocatable amount that pods request, in 0 to 1.
type Share struct {
	Now     float64 `json:"requested"`
	WithPod float64 `json:"requestedWithPod"`
}

// Refusal is a reason why nodes cannot take the pod.
type Refusal struct {
	Reason string   `json:"reason"`
	Count  int      `json:"nodes"`
	Nodes  []string `json:"examples"` // the first maxNamed by name
}

// maxNamed is the number of nodes that a Refusal names.
const maxNamed = 5

// Suggest ranks all nodes for a pod, which need not exist. It runs upstream's filters and the profile's
// decider, and changes nothing: the pod counts nowhere afterwards. If the decider fails, the error is a
// *plugin.Undecided.
func (a *Advisor) Suggest(ctx context.Context, pod *v1.Pod) (Suggestion, error) {
	if err := a.take(ctx); err != nil {
		return Suggestion{}, err
	}
	defer a.give()
	feasible, refused, err := Filter(ctx, a.profile, framework.NewCycleState(), pod)
	if err != nil {
		return Suggestion{}, err
	}
	out := Suggestion{Nodes: []Suggested{}, Refusals: group(refused)}
	if len(feasible) == 0 {
		return out, nil
	}
	opinion, err := plugin.Ask(ctx, a.profile, pod, feasible, false)
	if err != nil {
		return Suggestion{}, err
	}
	out.Decider, out.Took, out.Nodes = deciderOf(opinion.Network), opinion.Took.Seconds(), suggested(pod, feasible, opinion)
	return out, nil
}

// Filter runs a profile's filters over all nodes of its snapshot, which must not change meanwhile. refused holds the reasons of the other
// nodes by name. state is the state of a new scheduling cycle; score plugins may continue with it.
func Filter(
	ctx context.Context, profile framework.Framework, state fwk.CycleState, pod *v1.Pod,
) (feasible []fwk.NodeInfo, refused map[string]string, err error) {
	all, err := profile.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		return nil, nil, fmt.Errorf("read the snapshot: %w", err)
	}
	refused = map[string]string{}
	only, status, _ := profile.RunPreFilterPlugins(ctx, state, pod)
	if !status.IsSuccess() {
		if !status.IsRejected() {
			return nil, nil, fmt.Errorf("filter the nodes: %w", status.AsError())
		}
		for _, n := range all {
			refused[n.Node().Name] = Reason(status)
		}
		return nil, refused, nil
	}
	statuses := make([]*fwk.Status, len(all))
	profile.Parallelizer().Until(ctx, len(all), func(i int) {
		if !only.AllNodes() && !only.NodeNames.Has(all[i].Node().Name) {
			statuses[i] = fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "node(s) were not among those that the pod names")
			return
		}
		statuses[i] = profile.RunFilterPluginsWithNominatedPods(ctx, state, pod, all[i])
	}, "gnnsched/filter")
	if err := ctx.Err(); err != nil {
		return nil, nil, fmt.Errorf("filter the nodes: %w", context.Cause(ctx))
	}
	for i, n := range all {
		switch st := statuses[i]; {
		case st.IsSuccess():
			feasible = append(feasible, n)
		case st.IsRejected():
			refused[n.Node().Name] = Reason(st)
		default:
			return nil, nil, fmt.Errorf("filter the nodes: %w", st.AsError())
		}
	}
	return feasible, refused, nil
}

// maxReason bounds a reason in bytes, because it may quote text of a pod's owner.
const maxReason = 300

// Reason returns why a plugin refuses a node.
func Reason(st *fwk.Status) string { return Shorten(strings.Join(st.Reasons(), " and "), maxReason) }

// Shorten returns the text without control characters, cut after about most bytes.
func Shorten(text string, most int) string {
	short := text
	if len(text) > most {
		short = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(short, "�"))
}

// group collects the nodes by the reason why they are refused.
func group(refused map[string]string) []Refusal {
	by := map[string][]string{}
	for node, why := range refused {
		by[why] = append(by[why], node)
	}
	out := make([]Refusal, 0, len(by))
	for why, nodes := range by {
		slices.Sort(nodes)
		out = append(out, Refusal{why, len(nodes), nodes[:min(len(nodes), maxNamed)]})
	}
	slices.SortFunc(out, func(x, y Refusal) int {
		return cmp.Or(cmp.Compare(y.Count, x.Count), cmp.Compare(x.Reason, y.Reason))
	})
	return out
}

// suggested describes the feasible nodes, the best first, and equals by name.
func suggested(pod *v1.Pod, feasible []fwk.NodeInfo, o plugin.Opinion) []Suggested {
	out, left := make([]Suggested, len(feasible)), 0
	asks := kube.Requests(pod)
	for i, info := range feasible {
		n := o.Nodes[i]
		has, taken := info.GetAllocatable(), info.GetRequested()
		out[i] = Suggested{
			Node: info.Node().Name, Score: n.Score, Raw: n.Raw, Preferred: n.Preferred,
			CPU:    share(taken.GetMilliCPU(), asks.MilliCPU, has.GetMilliCPU()),
			Memory: share(taken.GetMemory(), asks.Memory, has.GetMemory()),
		}
		if n.Preferred {
			left++
		}
	}
	slices.SortFunc(out, func(x, y Suggested) int {
		return cmp.Or(cmp.Compare(y.Score, x.Score), cmp.Compare(y.Raw, x.Raw), cmp.Compare(x.Node, y.Node))
	})
	for i := range out {
		out[i].Reasons = reasons(out, i, left)
	}
	return out
}

func share(now, asks, of int64) Share {
	return Share{cluster.Fraction(now, of), cluster.Fraction(now+asks, of)}
}

// reasons explains the rank of node i. left is the number of nodes that preferences left.
func reasons(ranked []Suggested, i, left int) (out []string) {
	n := ranked[i]
	switch {
	case !n.Preferred:
		out = append(out, fmt.Sprintf("%d of %d nodes satisfy the pod's preferences better", left, len(ranked)))
	case int64(n.Score) == fwk.MaxNodeScore:
		out = append(out, fmt.Sprintf("it has the highest score (%.4g) of the %d nodes that the pod's preferences leave", n.Raw, left))
	default:
		out = append(out, fmt.Sprintf("its score (%.4g) is rank %d of the %d nodes that the pod's preferences leave, %.4g below the best",
			n.Raw, i+1, left, ranked[0].Raw-n.Raw))
	}
	return append(out, fmt.Sprintf("with the pod, %.0f %% of its CPU and %.0f %% of its memory are requested",
		100*n.CPU.WithPod, 100*n.Memory.WithPod))
}
