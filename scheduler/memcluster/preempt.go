package memcluster

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/scheduling/corev1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/controller/daemon/util"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	started "k8s.io/kubernetes/pkg/scheduler/util"
)

// candidate is a node with the pods that must leave it so that another pod fits.
type candidate struct {
	node    string
	victims []*v1.Pod // the most important first
}

// newPreemption returns upstream's preemption. Only its choice of each node's victims is used.
func newPreemption(ctx context.Context, profile framework.Framework) (*defaultpreemption.DefaultPreemption, error) {
	p, err := defaultpreemption.New(ctx, &config.DefaultPreemptionArgs{MinCandidateNodesPercentage: 100, MinCandidateNodesAbsolute: 1},
		profile, feature.Features{})
	if err != nil {
		return nil, fmt.Errorf("set up preemption: %w", err)
	}
	return p, nil
}

// preempt finds the node on which a pod fits once pods of lower priority have left, as upstream's preemption does,
// disruption budgets left aside. All nodes are looked at. ok is false if there is none.
func (c *Cluster) preempt(ctx context.Context, pod *v1.Pod) (best candidate, ok bool, err error) {
	if able, _ := c.preemption.PodEligibleToPreemptOthers(ctx, pod, nil); !able {
		return candidate{}, false, nil
	}
	infos, err := c.snapshot.NodeInfos().List()
	if err != nil {
		return candidate{}, false, fmt.Errorf("read the snapshot: %w", err)
	}
	if !slices.ContainsFunc(infos, func(n fwk.NodeInfo) bool { return lower(n, pod) }) {
		return candidate{}, false, nil
	}
	state := framework.NewCycleState()
	among, st, _ := c.profile.RunPreFilterPlugins(ctx, state, pod)
	if !st.IsSuccess() {
		return candidate{}, false, nil
	}
	infos = slices.DeleteFunc(slices.Clone(infos), func(n fwk.NodeInfo) bool {
		return !lower(n, pod) || !among.AllNodes() && !among.NodeNames.Has(n.Node().Name)
	})
	if len(infos) == 0 {
		return candidate{}, false, nil
	}
	found, _, err := c.preemption.Evaluator.DryRunPreemption(ctx, state, pod, infos, nil, 0, int32(len(infos)))
	if err != nil {
		return candidate{}, false, fmt.Errorf("preemption: %w", err)
	}
	for _, f := range found {
		if x := (candidate{f.Name(), f.Victims().Pods}); !ok || x.compare(best) < 0 {
			best, ok = x, true
		}
	}
	return best, ok, nil
}

// lower reports whether a node has a pod of lower priority.
func lower(info fwk.NodeInfo, pod *v1.Pod) bool {
	return slices.ContainsFunc(info.GetPods(), func(p fwk.PodInfo) bool {
		return corev1.PodPriority(p.GetPod()) < corev1.PodPriority(pod)
	})
}

// compare is negative if c is the better choice, by upstream's order: the lowest priority of the most important victim, the lowest sum
// of priorities, the fewest victims, the latest start of the most important ones; then the name.
func (c candidate) compare(o candidate) int {
	return cmp.Or(cmp.Compare(corev1.PodPriority(c.victims[0]), corev1.PodPriority(o.victims[0])), cmp.Compare(c.priorities(), o.priorities()),
		cmp.Compare(len(c.victims), len(o.victims)), o.started().Compare(c.started()), cmp.Compare(c.node, o.node))
}

// priorities returns the sum of the victims' priorities, all shifted over 0 so that more victims never make it less.
func (c candidate) priorities() (sum int64) {
	for _, v := range c.victims {
		sum += int64(corev1.PodPriority(v)) + 1<<31
	}
	return sum
}

// started returns when the first of the most important victims started.
func (c candidate) started() time.Time {
	first := started.GetPodStartTime(c.victims[0]).Time
	for _, v := range c.victims[1:] {
		if at := started.GetPodStartTime(v).Time; corev1.PodPriority(v) == corev1.PodPriority(c.victims[0]) && at.Before(first) {
			first = at
		}
	}
	return first
}

// daemon reports whether a pod belongs to one node.
func daemon(p *v1.Pod) bool {
	if _, static := p.Annotations[v1.MirrorPodAnnotationKey]; static {
		return true
	}
	o := metav1.GetControllerOfNoCopy(p)
	return o != nil && o.Kind == "DaemonSet"
}

// forNode returns a pod that waits for the node that it names, as its DaemonSet's controller makes it again.
func forNode(p *v1.Pod) *v1.Pod {
	out := On(p, "")
	out.Spec.Affinity = util.ReplaceDaemonSetPodNodeNameNodeAffinity(p.Spec.Affinity.DeepCopy(), p.Spec.NodeName)
	return out
}
