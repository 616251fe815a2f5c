package plugin

import (
	"context"
	"fmt"
	"math/bits"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	fwk "k8s.io/kube-scheduler/framework"
	fwkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/mig"
	"gnnsched/scheduler/decision"
	"gnnsched/scheduler/decision/record"
	"gnnsched/scheduler/plugin/canary"
	"gnnsched/scheduler/plugin/course"
	"gnnsched/scheduler/plugin/dra"
)

// Registry returns the plugins of this package. A scheduler with our profiles needs all of them. active is
// closed when the scheduler schedules, and nil if it does so from the start: a profile that learns then
// starts its trainer, which a standby must not have.
func Registry(active <-chan struct{}) fwkruntime.Registry {
	return RecordingRegistry(active, Recording{})
}

// RecordingRegistry is Registry for a scheduler whose decisions are recorded. Every profile with LearnedScore must
// also enable it at reserve and postBind.
func RecordingRegistry(active <-chan struct{}, r Recording) fwkruntime.Registry {
	learned := func(ctx context.Context, args runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
		return newPlugin(ctx, args, h, active, r)
	}
	return fwkruntime.Registry{Name: learned, GPUSharesName: newGPUShares, dra.Name: dra.New(host{})}
}

// host gives LearnedDevices the other plugins of its profile.
type host struct{}

var _ dra.Host = host{}

// Choose implements dra.Host: the policy of LearnedScore, if the profile has it and it decides about the pod, chooses.
func (host) Choose(ctx context.Context, h fwk.Handle, q dra.Question) (on cluster.DeviceSet, at mig.Slices) {
	loaded, has := deciders.Load(h)
	if !has || loaded.(*learnedScore).groupOf(q.Pod) == canary.Rest {
		return 0, 0
	}
	p, waiting := loaded.(*learnedScore), convertPod(q.Pod)
	q.Ask.Apply(&waiting)
	on = p.devices(ctx, deviceQuestion{pod: &waiting, uid: q.Pod.UID, node: q.Node, cycle: readScores(q.State), claims: q.Ask})
	if waiting.Partition != mig.None && on.Len() == 1 {
		at = p.partition(q.Ask.Slices(q.Node, bits.TrailingZeros64(uint64(on))), waiting.Partition)
	}
	return on, at
}

// Attempted tells the canary of h's profile, if it has one, how long an attempt to find a node for a pod took.
func Attempted(h fwk.Handle, pod *v1.Pod, took time.Duration) {
	if p, has := deciders.Load(h); has && p.(*learnedScore).canary != nil {
		p.(*learnedScore).canary.Attempted(pod, took)
	}
}

// sharers maps the fwk.Handle of a profile to its *gpuShares.
var sharers sync.Map

// Taken implements dra.Host: GPUShares, if the profile has it, knows.
func (host) Taken(h fwk.Handle, view *dra.View) map[string][]int64 {
	loaded, has := sharers.Load(h)
	if !has {
		return nil
	}
	g := loaded.(*gpuShares)
	g.mu.Lock()
	g.view = view
	g.mu.Unlock()
	out := map[string][]int64{}
	nodes := h.SnapshotSharedLister().NodeInfos()
	for name := range view.Nodes() {
		info, err := nodes.Get(name)
		if err != nil || !amounts(info.GetAllocatable()).HasGPUs() {
			continue
		}
		if used := view.Node(name).Others(g.devicesOf(info, "", nil).GPUs); used != nil {
			out[name] = used
		}
	}
	return out
}

// Recording says what becomes of the decisions of all profiles.
type Recording struct {
	Book *record.Book // keeps them; nil: nobody does
	// DefaultShare is the share of the time, in 0 to 1, that may be spent on finding out what the default profile would
	// have chosen. Decisions beyond it lack that.
	DefaultShare float64
	Events       bool            // each pod that gets a node gets an event that says why
	Shares       *canary.Reports // gets the profiles' canaries; may be nil
	// Course takes samples of how learning goes; nil: nobody does.
	Course *course.Course
}

// listen makes the book, and the events, hear of r's decisions.
func (c Recording) listen(ctx context.Context, r *recorder) {
	if c.Book == nil {
		return
	}
	r.asks = &allowance{share: c.DefaultShare}
	r.listen(ctx, c.Book)
	if c.Events {
		r.listen(ctx, announcer{r.handle.EventRecorder()})
	}
}

// Failed returns a function that hands the book the decision of an attempt that found no node, of one of the
// profiles, without waiting for the book. It works until ctx ends.
func (c Recording) Failed(ctx context.Context, profiles []string) func(decision.Decision) {
	queues := map[string]*decision.Queue{}
	for _, name := range profiles {
		q := decision.NewQueue(c.Book, queued, decisionsDropped.WithLabelValues(name).Inc)
		context.AfterFunc(ctx, q.Close)
		queues[name] = q
	}
	return func(d decision.Decision) { queues[d.Profile].Offer(d) }
}

// announcer makes an event of the decision for each pod that got a node.
type announcer struct{ events events.EventRecorder }

// Decided implements decision.Listener.
func (a announcer) Decided(d decision.Decision) {
	if !d.Bound {
		return
	}
	pod := &v1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: d.Pod.Namespace, Name: d.Pod.Name, UID: types.UID(d.Pod.UID)}
	a.events.Eventf(pod, nil, v1.EventTypeNormal, "Decided", "Scheduling", "%s", announcement(record.Of(&d)))
}

// announcement is the text of a decision's event. Kubernetes allows 1,024 bytes.
func announcement(r record.Record) string {
	text := fmt.Sprintf("%s was the only feasible node", r.Node)
	if len(r.Best) > 0 {
		by := r.Policy
		if r.Fallback != "" {
			by = "upstream's scoring, because " + r.Policy + " failed (" + r.Fallback + "),"
		}
		if r.Group == string(canary.Rest) {
			by = "the default profile's scoring"
		}
		text = fmt.Sprintf("%s chose %s of %d feasible nodes", by, r.Node, r.Feasible)
	}
	if r.Margin != nil {
		text += fmt.Sprintf(", %.4g ahead of %s", *r.Margin, r.RunnerUp)
	}
	switch {
	case r.Default == nil:
	case r.Default.Node == r.Node:
		text += "; the default profile would have chosen it too"
	default:
		text += "; the default profile would have chosen " + r.Default.Node
	}
	return text
}
