package moves

import (
	"math"
	"slices"

	"gnnsched/internal/cluster"
)

// amounts are CPU, memory, GPUs and pods that have to fit on the nodes that stay in use, and then pods and memory that move.
type amounts [6]int64

func amountsOf(r cluster.Resources) amounts {
	return amounts{r.MilliCPU, r.Memory, r.TotalGPUMilli(), r.Pods, r.Pods, r.Memory}
}

// weigh finds what bounds a search. What the pods of the emptied nodes request has to fit on the other nodes in use. So for each
// resource, what those pods request, and what the emptied nodes have free, is together no more than what all nodes in use have free. The
// same goes for the limits of the moves.
func (e *emptying) weigh() {
	e.weights, e.room = make([]*amounts, len(e.nodes)), amounts{4: math.MaxInt64, 5: math.MaxInt64}
	if e.limits.Pods > 0 {
		e.room[4] = int64(e.limits.Pods)
	}
	if e.limits.Memory > 0 {
		e.room[5] = e.limits.Memory
	}
	for k, n := range e.nodes {
		row, stays := int32(k), e.rules.Kept(int32(k)) != ""
		if len(e.pods[row]) == 0 && !stays {
			continue
		}
		free, closed := amountsOf(n.Free()), !slices.ContainsFunc(e.kinds, func(i int32) bool { return n.Admits(e.all[i].Tolerations) })
		for d := range 4 {
			if free[d] = max(free[d], 0); closed {
				free[d] = 0 // it takes no pod
			}
			e.room[d] += free[d]
		}
		var sum cluster.Resources
		for _, i := range e.pods[row] {
			sum, stays = sum.Plus(e.all[i].Requests), stays || e.rules.Stays(e.all[i].ID) != ""
		}
		if stays {
			continue
		}
		w := amountsOf(sum)
		for d := range 4 {
			if w[d] > 0 { // a pod that requests nothing of a resource fits where none is left
				w[d] += free[d]
			}
		}
		e.weights[row] = &w
	}
}

// possible reports whether nothing of this is in the way of emptying nodes.
func (e *emptying) possible(rows []int32) bool {
	left := e.room
	for _, row := range rows {
		for d, w := range e.weights[row] {
			left[d] -= w
		}
	}
	return slices.Min(left[:]) >= 0
}

// most returns a number of nodes of which no search can empty more: for each amount, of the nodes with the least.
func (e *emptying) most() int {
	most := len(e.nodes)
	for d, left := range e.room {
		var all []int64
		for _, w := range e.weights {
			if w != nil {
				all = append(all, w[d])
			}
		}
		slices.Sort(all)
		n := 0
		for ; n < len(all) && all[n] <= left; n++ {
			left -= all[n]
		}
		most = min(most, n)
	}
	return most
}
