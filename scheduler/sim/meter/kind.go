package meter

import (
	"math"

	"gnnsched/workload/usage"
)

// kind is a model of several pods.
type kind struct {
	model  *usage.Model
	varies dimensions // that are not constant
	single int        // the only one of them; -1 if there are several or none

	// A clocked model depends on the time alone: its pods want the same at a time, for so many seconds.
	clocked bool
	want    usage.Amounts
	hold    float64
}

// maxKinds bounds the time in which a pod finds its kind. Pods of other models, such as those of a trace, have none.
const maxKinds = 16

// kindOf returns the index of a model among the kinds; -1 if it is none.
func (m *Meter) kindOf(model *usage.Model) int32 {
	if model == nil {
		return -1
	}
	for i := range m.kinds {
		if m.kinds[i].model == model {
			return int32(i)
		}
	}
	if len(m.kinds) == maxKinds {
		return -1
	}
	k := kind{model: model, clocked: model.Clocked(), single: -1}
	for d, c := range model.Curves {
		if _, always := c.(usage.Constant); c != nil && !always {
			k.varies |= 1 << d
			k.single = d
		}
	}
	if k.varies&(k.varies-1) != 0 {
		k.single = -1
	}
	m.kinds = append(m.kinds, k)
	return int32(len(m.kinds) - 1)
}

// follow brings what the pods of a clocked model want up to a time, in seconds of the meter's time, which began at a time of day.
func (k *kind) follow(start, at float64) {
	if k.hold = math.Inf(1); !k.clocked {
		return
	}
	for d := range k.want {
		if k.varies.has(d) {
			x, hold := k.model.AtFor(usage.Dimension(d), 0, start+at, 0, nil)
			k.want[d], k.hold = x, min(k.hold, hold)
		}
	}
}
