//go:build !service && !k136

package karpenter

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/karpenter/pkg/controllers/disruption"
	"sigs.k8s.io/karpenter/pkg/controllers/state"
	"sigs.k8s.io/karpenter/pkg/events"
	karpenteroptions "sigs.k8s.io/karpenter/pkg/operator/options"

	"gnnsched/scheduler/autoscale"
)

// Option changes how Karpenter is run.
type Option func(*scaler) error

// Poll sets how often Karpenter looks for nodes to disrupt; by default 10 s, as Karpenter does. Longer periods save time on large clusters.
func Poll(d time.Duration) Option {
	return func(s *scaler) error {
		if d <= 0 {
			return fmt.Errorf("karpenter: poll is %v, must be more than 0", d)
		}
		s.loop.poll = d
		return nil
	}
}

// Singles limits how many nodes a look tries to consolidate one by one. The next look goes on after them. By default, it tries all.
func Singles(n int) Option {
	return func(s *scaler) error {
		s.loop.singles.limit = n
		return nil
	}
}

// ConsolidateAfter sets consolidateAfter of all pools, whatever their manifests say.
func ConsolidateAfter(d time.Duration) Option {
	return func(s *scaler) error {
		s.after = &d
		return nil
	}
}

// scaler runs Karpenter.
type scaler struct {
	options  karpenteroptions.Options
	clock    *clocktesting.FakeClock
	store    *store
	provider *provider
	cluster  *state.Cluster
	queue    *disruption.Queue
	whole    *view
	part     *view // the last excerpt
	types    []bargain

	now        time.Time // of the step
	before     time.Time // of the step before; zero: there was none
	generation int       // counts changes of what Karpenter sees
	spare      []*machine
	after      *time.Duration // of ConsolidateAfter

	batch    batch
	loop     loop
	yielded  consolidation // whose candidates another scaler may remove
	commands []*command
	launched map[string]int // machines by pool
	notes    notes
}

// New returns a scaler that runs Karpenter on the catalog's pools. It also has a method Notes, which says why pods found no machine.
func New(catalog *autoscale.Catalog, opts ...Option) (autoscale.Scaler, error) {
	s := &scaler{
		clock: clocktesting.NewFakeClock(time.Time{}), store: &store{}, launched: map[string]int{}, notes: notes{},
		loop: loop{poll: 10 * time.Second},
		options: karpenteroptions.Options{
			CPURequests: 1000, BatchIdleDuration: time.Second, BatchMaxDuration: 10 * time.Second, IgnoreDRARequests: true,
			PreferencePolicy: karpenteroptions.PreferencePolicyRespect, MinValuesPolicy: karpenteroptions.MinValuesPolicyStrict,
			FeatureGates: karpenteroptions.DefaultFeatureGates(),
		},
	}
	for _, o := range opts {
		if err := o(s); err != nil {
			return nil, err
		}
	}
	for i := range catalog.Pools {
		np, err := nodePool(&catalog.Pools[i])
		if err != nil {
			return nil, err
		}
		if s.after != nil {
			np.Spec.Disruption.ConsolidateAfter.Duration = s.after
		}
		s.store.pools = append(s.store.pools, np)
	}
	s.provider = newProvider(catalog, s.store.pools)
	x := &store{}
	s.types = s.provider.bargains()
	s.cluster = state.NewCluster(s.clock, s.store, s.provider)
	s.queue = disruption.NewQueue(s.store, silent{}, s.cluster, s.clock, nil)
	s.whole, s.part = s.newView(s.store, s.cluster), s.newView(x, state.NewCluster(s.clock, x, s.provider))
	s.loop.methods = s.methods()
	return s, nil
}

// silent drops Karpenter's events.
type silent struct{}

// Publish implements events.Recorder.
func (silent) Publish(...events.Event) {}

// changed notes that Karpenter sees something new.
func (s *scaler) changed() { s.generation++ }

// Step implements autoscale.Scaler.
func (s *scaler) Step(ctx context.Context, c *autoscale.Cluster) (autoscale.Plan, error) {
	wellKnown.RLock()
	defer wellKnown.RUnlock()
	ctx = s.context(ctx)
	s.tick(c.Now)
	plan := autoscale.Plan{}
	if err := s.sync(ctx, c); err != nil {
		return plan, err
	}
	s.finish(&plan)
	s.expire(&plan)
	if err := s.provision(ctx, &plan); err != nil {
		return plan, err
	}
	if err := s.disrupt(ctx, &plan); err != nil {
		return plan, err
	}
	plan.Next = s.next()
	return plan, nil
}

// context returns a context as Karpenter's code needs it.
func (s *scaler) context(ctx context.Context) context.Context {
	return log.IntoContext(karpenteroptions.ToContext(timeless{ctx}, &s.options), logr.Discard())
}

// tick sets the time. Karpenter compares times to find out whether something changed. Therefore two steps never have quite the same.
func (s *scaler) tick(now time.Time) {
	if !now.After(s.clock.Now()) && !s.now.IsZero() {
		s.clock.SetTime(s.clock.Now().Add(1))
	} else {
		s.clock.SetTime(now)
	}
	if s.now.IsZero() {
		s.loop.next = now.Add(s.loop.poll)
	}
	s.before, s.now = s.now, now
}

// next returns when to look again, in whole milliseconds and after now.
func (s *scaler) next() time.Time {
	at := sooner(s.batch.due(&s.options), s.loop.due())
	var ask time.Time // the next one; a look at the end of its batch is soon enough
	for _, p := range s.store.waiting {
		ask = sooner(ask, p.trigger)
	}
	for _, m := range s.store.machines {
		if m.leaves {
			ask = sooner(ask, m.trigger)
		} else {
			at = sooner(at, expiry(m))
		}
	}
	if s.batch.opened.IsZero() && !ask.IsZero() {
		at = sooner(at, ask.Add(s.options.BatchIdleDuration))
	}
	for _, c := range s.commands {
		at = sooner(at, c.CreationTimestamp.Add(s.queue.GetMaxRetryDuration()+time.Second))
	}
	if at.IsZero() {
		return at
	}
	if at = at.Add(time.Millisecond - 1).Truncate(time.Millisecond); !at.After(s.now) {
		at = s.now.Add(time.Millisecond)
	}
	return at
}

// sooner returns the earlier of two times. The zero time is never.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// expiry returns when a machine of a pool is too old, or zero.
func expiry(m *machine) time.Time {
	if m.claim == nil || m.claim.Spec.ExpireAfter.Duration == nil {
		return time.Time{}
	}
	return m.claim.CreationTimestamp.Add(*m.claim.Spec.ExpireAfter.Duration)
}

// expire removes machines that are too old, whatever runs on them, as Karpenter does.
func (s *scaler) expire(plan *autoscale.Plan) {
	for _, m := range s.store.machines {
		if at := expiry(m); !m.leaves && !at.IsZero() && !s.now.Before(at) {
			s.remove(m, plan)
		}
	}
}

// remove closes a machine and has it drained.
func (s *scaler) remove(m *machine, plan *autoscale.Plan) {
	s.close(m, plan)
	plan.Remove = append(plan.Remove, m.name)
}

// close keeps pods from a machine.
func (s *scaler) close(m *machine, plan *autoscale.Plan) {
	if !m.leaves {
		m.leaves = true
		plan.Close = append(plan.Close, m.name)
		s.cluster.MarkForDeletion(m.providerID())
		s.changed()
	}
}

// timeless is a context whose deadline has passed but never takes effect. Karpenter limits how long it computes, in real time, by contexts
// with a later deadline. Of these, package context makes contexts that have no timer. So the same input has the same result on any machine.
type timeless struct{ context.Context }

// Deadline implements context.Context.
func (timeless) Deadline() (time.Time, bool) { return time.Unix(0, 0), true }
