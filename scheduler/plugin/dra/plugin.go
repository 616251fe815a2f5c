package dra

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/dynamic-resource-allocation/cel"
	fwk "k8s.io/kube-scheduler/framework"
	configlatest "k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	fwkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/mig"
	"gnnsched/scheduler/plugin/userconfig"
)

// Name is the plugin's name in KubeSchedulerConfiguration. A profile that has it must disable upstream's
// DynamicResources: each would allocate.
const Name = userconfig.LearnedDevices

// Host is the rest of the profiles, each of which h stands for.
type Host interface {
	// Choose returns the cards that the profile's policy chooses for a question;
	// none if it has no opinion. For a pod that requests one MIG partition it also returns the memory slices of the partition;
	// none if any will do.
	Choose(ctx context.Context, h fwk.Handle, q Question) (cluster.DeviceSet, mig.Slices)
	// Taken returns what pods without claims use of the cards of nodes that offer them to such pods, too, by
	// node and in thousandths. Nodes of which they use nothing are left out.
	Taken(h fwk.Handle, view *View) map[string][]int64
}

// Question asks for the cards that the pod of a scheduling cycle should get on a node.
type Question struct {
	State fwk.CycleState
	Pod   *v1.Pod
	Node  string
	Ask   *Ask // what the pod asks of the node
}

// plugin is upstream's DynamicResources with all its extension points.
type plugin struct {
	*dynamicresources.DynamicResources
	handle  fwk.Handle
	manager *manager
	cel     *cel.Cache
	host    Host
	// keepsNames is set once the API server has kept a name in a pod's status that was to be removed; see clearStale.
	keepsNames atomic.Bool
}

var (
	_ fwk.PreFilterPlugin  = &plugin{}
	_ fwk.FilterPlugin     = &plugin{}
	_ fwk.PostFilterPlugin = &plugin{}
	_ fwk.ReservePlugin    = &plugin{}
	_ fwk.PreBindPlugin    = &plugin{}
)

// maxExpressions is how many compiled selectors are kept.
const maxExpressions = 100

// New returns the plugin's factory. The plugin has no arguments.
func New(host Host) fwkruntime.PluginFactory {
	return func(ctx context.Context, _ runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
		set.Register()
		args, err := upstreamArgs()
		if err != nil {
			return nil, err
		}
		m := &manager{SharedDRAManager: h.SharedDRAManager(), ledger: LedgerOf(ctx, h)}
		m.taken = func(v *View) map[string][]int64 { return host.Taken(h, v) }
		if err := m.ledger.order.follow(h.SharedInformerFactory()); err != nil {
			return nil, fmt.Errorf("follow the claims: %w", err)
		}
		// The registry's factory knows the feature gates.
		made, err := plugins.NewInTreeRegistry()[dynamicresources.Name](ctx, args, handle{h, m})
		if err != nil {
			return nil, fmt.Errorf("make upstream's %s: %w", dynamicresources.Name, err)
		}
		gates := feature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate)
		return &plugin{
			DynamicResources: made.(*dynamicresources.DynamicResources), handle: h, manager: m, host: host,
			cel: cel.NewCache(maxExpressions, cel.Features{EnableConsumableCapacity: gates.EnableDRAConsumableCapacity,
				EnableListTypeAttributes: gates.EnableDRAListTypeAttributes}),
		}, nil
	}
}

// upstreamArgs returns the arguments that upstream's plugin has in the default profile.
func upstreamArgs() (runtime.Object, error) {
	c, err := configlatest.Default()
	if err != nil {
		return nil, fmt.Errorf("default scheduler configuration: %w", err)
	}
	for _, p := range c.Profiles[0].PluginConfig {
		if p.Name == dynamicresources.Name {
			return p.Args, nil
		}
	}
	return nil, fmt.Errorf("the default profile has no arguments for %s", dynamicresources.Name)
}

// Name implements fwk.Plugin.
func (p *plugin) Name() string { return Name }

// PreFilter implements fwk.PreFilterPlugin: upstream's, and what the pod asks for LearnedScore.
func (p *plugin) PreFilter(ctx context.Context, state fwk.CycleState, pod *v1.Pod,
	nodes []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	askKey.Delete(state)
	reservedKey.Delete(state)
	c := &cycle{}
	result, status := p.preFilter(ctx, state, pod, nodes, c)
	if status.IsSkip() && p.stuck(pod) { // no class serves what it requests
		return nil, stuckStatus(pod)
	}
	if status.IsSuccess() && c.view != nil { // otherwise upstream has nothing to allocate
		if a := newAsk(ctx, p.manager.ledger, c.view, p.cel, pod); a != nil {
			askKey.Write(state, a)
		}
	}
	return result, status
}

func (p *plugin) preFilter(ctx context.Context, state fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo,
	c *cycle) (*fwk.PreFilterResult, *fwk.Status) {
	p.manager.cycle.Store(c)
	defer p.manager.cycle.Store(nil)
	return p.DynamicResources.PreFilter(ctx, state, pod, nodes)
}

// PostFilter implements fwk.PostFilterPlugin: upstream's. Where another plugin refused the pod before PreFilter, there is nothing to
// free, and upstream's would end in the error "not found".
func (p *plugin) PostFilter(ctx context.Context, state fwk.CycleState, pod *v1.Pod,
	nodes fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	if _, err := state.Read(dynamicresources.Name); err != nil {
		return nil, fwk.NewStatus(fwk.Unschedulable)
	}
	return p.DynamicResources.PostFilter(ctx, state, pod, nodes)
}

// Reserve implements fwk.ReservePlugin: upstream's, after upstream allocated again with the devices that
// the profile's policy chooses at the front.
func (p *plugin) Reserve(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node string) *fwk.Status {
	var c *choice
	// The pods of a group share claims that are reserved together, so upstream's allocation stays.
	if a := Asked(state); a != nil && a.view.Node(node) != nil && state.GetPodGroupSchedulingCycle() == nil {
		c = &choice{node: a.view.Node(node), name: node}
		if status := p.allocate(ctx, state, pod, c); !status.IsSuccess() {
			return status
		}
	}
	var given []*resourceapi.ResourceClaim
	p.manager.reserving.Store(&given)
	defer p.manager.reserving.Store(nil)
	status := p.DynamicResources.Reserve(ctx, state, pod, node)
	if !status.IsSuccess() {
		return status
	}
	r := &reserved{claims: p.manager.ledger.allClaims(pod, given), given: given}
	if len(r.claims) == 0 { // it has none, or the node itself offers what it requests
		return status
	}
	if r.node = p.manager.ledger.node(node); c != nil && len(given) > 0 {
		r.node, r.cards = c.node, c.node.cardsOf(given)
		countChoice(p.handle.ProfileName(), c.on, r.cards)
	}
	reservedKey.Write(state, r)
	return status
}

// allocate replaces the node's allocation in the cycle's state, if the policy chooses devices.
func (p *plugin) allocate(ctx context.Context, state fwk.CycleState, pod *v1.Pod, c *choice) *fwk.Status {
	a := Asked(state).Among(ctx, slices.Values([]string{c.name}))
	if c.on, c.at = p.host.Choose(ctx, p.handle, Question{State: state, Pod: pod, Node: c.name, Ask: a}); c.on == 0 {
		return nil
	}
	info, err := p.handle.SnapshotSharedLister().NodeInfos().Get(c.name)
	if err != nil {
		return fwk.AsStatus(err)
	}
	c.on = a.together(ctx, c.node, c.on, func() []int64 { return p.manager.taken(a.view)[c.name] })
	if _, status := p.preFilter(ctx, state, pod, []fwk.NodeInfo{info}, &cycle{choice: c}); !status.IsSuccess() {
		return status
	}
	return p.Filter(ctx, state, pod, info)
}

// CycleKey names a value in the state of a cycle.
type CycleKey[T any] string

// data is a value in a state. Clones of the state share what it points to.
type data[T any] struct{ value T }

// Clone implements fwk.StateData.
func (d data[T]) Clone() fwk.StateData { return d }

// Write keeps a value, in place of an earlier one.
func (k CycleKey[T]) Write(state fwk.CycleState, value T) {
	state.Write(fwk.StateKey(k), data[T]{value})
}

// Find returns the value that is kept, and whether there is one.
func (k CycleKey[T]) Find(state fwk.CycleState) (value T, has bool) {
	d, err := state.Read(fwk.StateKey(k))
	if err != nil {
		return value, false
	}
	return d.(data[T]).value, true
}

// Read returns the value that is kept; the zero value if there is none.
func (k CycleKey[T]) Read(state fwk.CycleState) T {
	value, _ := k.Find(state)
	return value
}

// Delete forgets the value.
func (k CycleKey[T]) Delete(state fwk.CycleState) { state.Delete(fwk.StateKey(k)) }
