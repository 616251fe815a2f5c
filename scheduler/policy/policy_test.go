package policy

import (
	"math"
	"testing"

	"gnnsched/internal/cluster"
	"gnnsched/scheduler/policy/preference"
)

func TestBest(t *testing.T) {
	for want, scores := range map[int][]float32{-1: nil, 0: {3, 3, 3}, 1: {-2, -1, -1.5}, 2: {float32(math.Inf(-1)), 0, 1}} {
		if got := Best(scores); got != want {
			t.Errorf("%v: %d, want %d", scores, got, want)
		}
	}
}

// nodes stands for a policy that chooses nodes only; upstreamNodes for one of upstream's.
type nodes struct{ Policy }

type upstreamNodes struct{ nodes }

func (upstreamNodes) PreferenceWeights() preference.Weights { return preference.Weights{Taints: 7} }

func TestFirstFit(t *testing.T) {
	for _, c := range []struct {
		used []int64
		ask  cluster.Resources
		want cluster.DeviceSet
	}{
		{[]int64{0, 500, 0}, cluster.Resources{GPUMilli: 300}, 0b001}, // where best fit takes the second
		{[]int64{800, 500, 0}, cluster.Resources{GPUMilli: 300}, 0b010},
		{[]int64{800, 500, 700}, cluster.Resources{GPUMilli: 300}, 0b010},
		{[]int64{0, 500, 0, 0}, cluster.Resources{GPU: 2}, 0b101},
		{[]int64{0, 500}, cluster.Resources{}, 0},
	} {
		n := &cluster.Node{GPUs: c.used}
		if got := Devices(FirstFit(nodes{}), n, &cluster.Pod{Requests: c.ask}); got != c.want {
			t.Errorf("%v, %+v: devices %b, want %b", c.used, c.ask, got, c.want)
		}
	}
	if _, is := FirstFit(nodes{}).(Upstream); is {
		t.Error("a policy of its own stands for upstream")
	}
	if u, is := FirstFit(upstreamNodes{}).(Upstream); !is || u.PreferenceWeights().Taints != 7 {
		t.Error("a policy of upstream does not")
	}
}
