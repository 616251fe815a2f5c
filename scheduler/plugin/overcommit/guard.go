package overcommit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"k8s.io/utils/clock"

	"gnnsched/internal/metric"
	"gnnsched/internal/watched"
)

// Guard makes the profiles of a scheduler leave nodes to other schedulers that were first. It must be called before the informers start.
// Profiles that do not filter by resources are left as they are.
func Guard(ctx context.Context, s *scheduler.Scheduler, c clock.PassiveClock) error {
	set.Register()
	own := map[string]bool{}
	for name := range s.Profiles {
		own[name] = true
	}
	var l *ledger
	for name, profile := range s.Profiles {
		if !slices.ContainsFunc(profile.ListPlugins().Filter.Enabled, func(p config.Plugin) bool { return p.Name == names.NodeResourcesFit }) {
			continue
		}
		if l == nil {
			core := profile.SharedInformerFactory().Core().V1()
			l = newLedger(own, core.Nodes().Lister(), c, klog.FromContext(ctx))
			if _, err := core.Pods().Informer().AddEventHandler(l.handler()); err != nil {
				return fmt.Errorf("follow the pods: %w", err)
			}
		}
		s.Profiles[name] = &guarded{profile, l}
	}
	return nil
}

// guarded is a profile whose pods give way to those of other schedulers.
type guarded struct {
	framework.Framework
	ledger *ledger
}

// RunReservePluginsReserve implements framework.Framework. It notes which pods of other schedulers counted on the node.
func (g *guarded) RunReservePluginsReserve(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node string) *fwk.Status {
	known := map[types.UID]bool{}
	if info, err := g.SnapshotSharedLister().NodeInfos().Get(node); err == nil {
		for _, p := range info.GetPods() {
			if p := p.GetPod(); !g.ledger.own[p.Spec.SchedulerName] {
				known[p.UID] = true
			}
		}
	}
	g.ledger.begin(pod, node, known)
	return g.Framework.RunReservePluginsReserve(ctx, state, pod, node) // if it fails, Unreserve follows
}

// RunReservePluginsUnreserve implements framework.Framework. It takes the announcement back before the pod can try again. Upstream does
// so, too, but later, when the pod may be announced anew.
func (g *guarded) RunReservePluginsUnreserve(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node string) {
	if g.ledger.end(pod.UID) {
		if err := g.announce(ctx, pod, nil); err != nil && ctx.Err() == nil && !apierrors.IsNotFound(err) {
			klog.FromContext(ctx).Error(err, "A pod stays announced for a node that it does not get", "pod", klog.KObj(pod), "node", node)
		}
	}
	g.Framework.RunReservePluginsUnreserve(ctx, state, pod, node)
}

// RunPreBindPlugins implements framework.Framework. Beside other schedulers, it announces the pod first.
func (g *guarded) RunPreBindPlugins(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node string) *fwk.Status {
	if g.ledger.shared() {
		g.ledger.announced(pod.UID)
		if err := g.announce(ctx, pod, &node); err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "Other schedulers do not know of a pod before it is bound", "pod", klog.KObj(pod), "node", node)
		}
	}
	if s := g.look(ctx, pod, node); !s.IsSuccess() {
		return s
	}
	return g.Framework.RunPreBindPlugins(ctx, state, pod, node)
}

// RunBindPlugins implements framework.Framework.
func (g *guarded) RunBindPlugins(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node string) *fwk.Status {
	if s := g.look(ctx, pod, node); !s.IsSuccess() {
		return s
	}
	return g.Framework.RunBindPlugins(ctx, state, pod, node)
}

// look returns an error if another scheduler was first. The pod then tries again.
func (g *guarded) look(ctx context.Context, pod *v1.Pod, node string) *fwk.Status {
	lacks := g.ledger.lacks(pod.UID)
	if lacks == "" {
		return nil
	}
	conflicts.WithLabelValues(g.ProfileName()).Inc()
	klog.FromContext(ctx).Info("Another scheduler was first: the pod is not bound and tries again", "pod", klog.KObj(pod), "node", node,
		"lacks", lacks)
	return fwk.AsStatus(fmt.Errorf("another scheduler took the room of node %s, too: insufficient %s", node, lacks))
}

// seeWithin is how long a pod waits for the watch to show its announcement.
const seeWithin = 10 * time.Second

// announce writes the pod's node, or that it has none, into its status. It waits until the ledger has seen that, and so what others wrote
// before.
func (g *guarded) announce(ctx context.Context, pod *v1.Pod, node *string) error {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": pod.UID}, "status": map[string]any{"nominatedNodeName": node},
	})
	if err != nil {
		return err
	}
	is, err := g.ClientSet().CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	if err != nil {
		return fmt.Errorf("announce the node: %w", err)
	}
	within, cancel := context.WithTimeout(ctx, seeWithin)
	defer cancel()
	select {
	case <-g.ledger.seen(pod.UID, watched.Version(is)):
		return nil
	case <-within.Done():
		g.ledger.forget(pod.UID)
		return errors.New("the watch of the pods is late")
	}
}

var set metric.Set

// conflicts counts the pods that gave way.
var conflicts = set.Counters("node_conflicts_total",
	"Pods that were not bound to their node, because another scheduler had taken its room at the same time. They try again.", "profile")

// overcommits counts pods that did not.
var overcommits = set.Counter("node_overcommits_total",
	"Pods, of any scheduler, that were bound to a node whose pods then requested more than it has.")
