package plugin

import (
	"context"
	"fmt"
	"math/bits"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	fwk "k8s.io/kube-scheduler/framework"
	fwkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/mig"
	"gnnsched/scheduler/decision"
	"gnnsched/scheduler/plugin/canary"
	"gnnsched/scheduler/plugin/dra"
	"gnnsched/scheduler/plugin/learningcurve"
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

// newPlugin makes the plugin of one profile.
func newPlugin(ctx context.Context, obj runtime.Object, h fwk.Handle, active <-chan struct{}, recording Recording) (fwk.Plugin, error) {
	args, err := DecodeArgs(obj, h.ProfileName())
	if err != nil {
		return nil, err
	}
	of := profileOf(ctx, h)
	p, err := newLearnedScore(ctx, args, h, of.reserved)
	if err != nil {
		return nil, err
	}
	of.scores = p
	if args.Canary != nil {
		p.canary = canary.New(ctx, *args.Canary, h, active, logger(ctx))
		recording.Canaries.Add(p.canary)
	}
	if args.Learn != nil {
		l := newLearner(ctx, p, *args.Learn, active)
		recording.listen(ctx, l.recorder)
		return l, nil
	}
	if recording.Book == nil && p.canary == nil {
		return p, nil
	}
	r := newRecorder(ctx, p)
	recording.listen(ctx, r)
	return r, nil
}

// host gives LearnedDevices the other plugins of its profile.
type host struct{}

var _ dra.Host = host{}

// Choose implements dra.Host: the policy of LearnedScore, if the profile has it and it decides about the pod, chooses.
func (host) Choose(ctx context.Context, h fwk.Handle, q dra.Question) (on cluster.DeviceSet, at mig.Slices) {
	p, waiting := knownProfile(h).scores, convertPod(q.Pod)
	q.Ask.Apply(&waiting)
	on = p.devices(ctx, view{pod: &waiting, manifest: q.Pod, claims: q.Ask}, q.Node, stateKey.Read(q.State))
	if waiting.Partition != mig.None && on.Len() == 1 {
		at = p.partition(q.Ask.Slices(q.Node, bits.TrailingZeros64(uint64(on))), waiting.Partition)
	}
	return on, at
}

// Taken implements dra.Host: GPUShares, if the profile has it, knows.
func (host) Taken(h fwk.Handle, view *dra.View) map[string][]int64 {
	if taken := knownProfile(h).taken; taken != nil {
		return taken(view)
	}
	return nil
}

// Recording says what becomes of the decisions of all profiles.
type Recording struct {
	Book *decision.Book // keeps them; nil: nobody does
	// DefaultShare is the share of the time, in 0 to 1, that may be spent on finding out what the default profile would
	// have chosen. Decisions beyond it lack that.
	DefaultShare float64
	Events       bool            // each pod that gets a node gets an event that says why
	Canaries     *canary.Reports // gets the profiles' canaries; may be nil
	// Curves takes samples of how learning goes; nil: nobody does.
	Curves *learningcurve.Sampler
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
		dropped := decisionsDropped.WithLabelValues(name)
		q := decision.NewQueue(c.Book, queued, func(decision.Decision) { dropped.Inc() })
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
	a.events.Eventf(pod, nil, v1.EventTypeNormal, "Decided", "Scheduling", "%s", announcement(decision.RecordOf(&d)))
}

// announcement is the text of a decision's event. Kubernetes allows 1,024 bytes.
func announcement(r decision.Record) string {
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
