package driver

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"gnnsched/internal/cluster"
	"gnnsched/workload"
	"gnnsched/workload/record"
	"gnnsched/workload/record/play"
)

// GPUSummary is the GPU part of a fill's outcome. Amounts are in thousandths of a device.
type GPUSummary struct {
	Capacity  int64 `json:"capacity"`  // of the schedulable nodes
	Asked     int64 `json:"asked"`     // requested by the pods that were not deleted
	Allocated int64 `json:"allocated"` // requested by the pods with a node
	// AllocatedAtFull is Allocated at the first arrival with which Asked reached Capacity,
	// counting only pods that had arrived by then. It is 0 if Asked never reached Capacity, or
	// if pods were deleted.
	AllocatedAtFull int64 `json:"allocatedAtFull,omitempty"`

	UnscheduledCPU   int `json:"unscheduledCPU"`   // pods without a node that request no GPU
	UnscheduledShare int `json:"unscheduledShare"` // pods without a node that request a share of one
	UnscheduledWhole int `json:"unscheduledWhole"` // pods without a node that request whole ones
}

// Allocation returns the allocated fraction of the capacity.
func (g GPUSummary) Allocation() float64 { return cluster.Fraction(g.Allocated, g.Capacity) }

// AllocationAtFull returns AllocatedAtFull as a fraction of the capacity.
func (g GPUSummary) AllocationAtFull() float64 {
	return cluster.Fraction(g.AllocatedAtFull, g.Capacity)
}

// Add adds the next Deployment to arrive. bound is the number of its pods that have a node.
func (s *GPUSummary) Add(d workload.Deployment, bound int) {
	each := d.Shape.Requests.TotalGPUMilli()
	s.Asked += each * int64(d.Replicas)
	s.Allocated += each * int64(bound)
	if s.AllocatedAtFull == 0 && s.Asked >= s.Capacity {
		s.AllocatedAtFull = s.Allocated
	}
	switch left := d.Replicas - bound; {
	case d.Shape.Requests.GPU > 0:
		s.UnscheduledWhole += left
	case d.Shape.Requests.GPUMilli > 0:
		s.UnscheduledShare += left
	default:
		s.UnscheduledCPU += left
	}
}

// gpuSummary sums up the fill. It returns nil if the cluster has no GPUs.
func (r *runner) gpuSummary() *GPUSummary {
	s := GPUSummary{Capacity: r.Room.Allocatable.TotalGPUMilli()}
	if s.Capacity == 0 {
		return nil
	}
	for _, d := range r.created {
		if d, ok := r.existing[d.Name]; ok {
			t, _ := r.pods.count(map[string]workload.Deployment{d.Name: d})
			s.Add(d, t.bound)
		}
	}
	if r.fill.Deleted+r.fill.Lost > 0 {
		s.AllocatedAtFull = 0
	}
	return &s
}

// priority holds the fields that a PriorityClass gives a pod.
type priority struct {
	value  int32
	policy corev1.PreemptionPolicy
}

// priorityOf returns the priority with which a pod of the record is played.
func (s *stage) priorityOf(p *record.Pod) priority {
	if !s.Simulated {
		return priority{p.Priority, corev1.PreemptNever}
	}
	return priority{p.Priority, corev1.PreemptionPolicy(cmp.Or(p.Preemption, string(corev1.PreemptLowerPriority)))}
}

// maxPriority is the highest priority that a class of a user can have.
const maxPriority = 1_000_000_000

// createClasses finds or creates a PriorityClass for each priority of the plan's pods, because an API server sets a pod's priority only
// from its class. It uses the cluster's own system classes on simulated clusters only: they preempt, and other software depends on their
// names.
func (s *stage) createClasses(ctx context.Context) error {
	wanted, high := map[priority]string{}, 0
	s.parts(func(_ string, p play.Part) { wanted[s.priorityOf(p.Row)] = p.Row.PriorityClass })
	list, err := s.Client.SchedulingV1().PriorityClasses().List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list the priority classes: %w", err)
	}
	there, byDefault := map[priority]string{}, priority{0, corev1.PreemptLowerPriority}
	for i := range list.Items {
		c := &list.Items[i]
		is := classPriority(c)
		if c.GlobalDefault {
			byDefault = is
		}
		if s.Simulated && strings.HasPrefix(c.Name, "system-") {
			there[is] = c.Name
		}
	}
	there[byDefault] = "" // a pod without a class has it
	for _, want := range slices.SortedFunc(maps.Keys(wanted), func(a, b priority) int {
		return cmp.Or(cmp.Compare(a.value, b.value), cmp.Compare(a.policy, b.policy))
	}) {
		name, ok := there[want]
		if !ok {
			name = fmt.Sprintf("gnnsched-%s-%d", strings.Map(dns, strings.ToLower(s.RunID)), len(s.classes)+1)
			if want.value > maxPriority {
				high++
			}
			if err := s.createClass(ctx, name, want, wanted[want]); err != nil {
				return err
			}
		}
		s.classes[want] = name
	}
	if high > 0 {
		s.Log.Warn().Int("priorities", high).Msgf("priorities over %d that no class of the cluster has are played as %d",
			maxPriority, maxPriority)
	}
	return nil
}

func classPriority(c *schedulingv1.PriorityClass) priority {
	return priority{c.Value, ptr.Deref(c.PreemptionPolicy, corev1.PreemptLowerPriority)}
}

func (s *stage) createClass(ctx context.Context, name string, p priority, was string) error {
	c := &schedulingv1.PriorityClass{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: s.labels()}, Value: min(p.value, maxPriority), PreemptionPolicy: &p.policy,
		Description: fmt.Sprintf("stands for %q of a record that runsim plays", was),
	}
	if err := create(ctx, s.Client.SchedulingV1().PriorityClasses(), c); err != nil {
		return fmt.Errorf("create priority class %s: %w", name, err)
	}
	return nil
}

// dns replaces what may not stand in a DNS label.
func dns(r rune) rune {
	if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
		return r
	}
	return '-'
}
