package plan

import (
	"cmp"
	"slices"

	"gnnsched/scheduler/replay"
	"gnnsched/workload/record"
)

// amounts are thousandths of a core, bytes of memory, GPUs and pods.
type amounts [4]float64

// dimensions name the amounts.
var dimensions = [len(amounts{})]string{"CPU", "memory", "GPUs", "pods"}

func offered(n *record.Node) amounts {
	return amounts{float64(n.MilliCPU), float64(n.Memory), float64(n.GPU), float64(n.Pods)}
}

func requested(p *record.Pod) amounts {
	return amounts{float64(p.MilliCPU), float64(p.Memory), float64(p.GPU), 1}
}

// life is the time in which a pod runs or waits, in any replay, however early it gets its node.
type life struct {
	from, to int64
	asks     amounts
}

// lives returns the lives of the pods that have to be placed.
func lives(s *replay.Source, counts func(*record.Pod) bool) (out []life) {
	for i := range s.Pods {
		p := &s.Pods[i]
		if p.Daemon || p.Arrived >= s.To || p.Ended != 0 && p.Ended <= s.From || !counts(p) {
			continue
		}
		l := life{max(p.Arrived, s.From), s.To, requested(p)}
		if p.Ended != 0 {
			l.to = min(p.Ended, s.To)
			if p.Bound > s.From && (p.End == record.Succeeded || p.End == record.Failed) {
				l.to = min(l.from+p.Ended-p.Bound, s.To) // it runs for its recorded duration, from when it gets a node
			}
		}
		out = append(out, l)
	}
	return out
}

// need returns a lower bound, in each dimension, of the capacity of nodes that hold the work. It takes the pods that counts selects. refs
// is the outcome on the reference's nodes.
//
// At the end, all pods that are there have nodes, except as many as the reference leaves without. And in each stretch of time of length L,
// a pod that is there all the time and waits no longer than Wait in all is on a node for L-Wait. So the nodes offer on average what
// these pods request, times (L-Wait)/L. As many pods may wait longer, or go without a node, as the target allows: the largest are left out.
// Stretches are of the time in which somebody watched, as waits are: gaps are cut out of it, and pods that arrive in one may wait for any
// time.
func need(s *replay.Source, t Target, refs Outcome, counts func(*record.Pod) bool) (most amounts) {
	all := lives(s, counts)
	var last []amounts
	for _, l := range all {
		if l.to == s.To {
			last = append(last, l.asks)
		}
	}
	free := refs.Unplaced + refs.refused
	most = less(last, free)
	late := 0 // pods that may wait longer
	if refs.pods > 0 {
		late = refs.pods - 1 - int(t.Share*float64(refs.pods-1)+0.5)
	}
	all = watched(s, all)
	wait, total := t.Wait.Milliseconds(), s.Watched(s.From, s.To)
	for length := max(2*wait, 1); length <= total; length *= 2 {
		share := 1 - float64(wait)/float64(length)
		for d := range most {
			at := peak(all, length, d)
			var there []amounts
			for _, l := range all {
				if l.from <= at && l.to >= at+length {
					there = append(there, l.asks)
				}
			}
			most[d] = max(most[d], less(there, free+late)[d]*share)
		}
	}
	return most
}

// watched returns the lives of the pods whose wait counts, in milliseconds of watching since the beginning of the window.
func watched(s *replay.Source, all []life) (out []life) {
	for _, l := range all {
		if s.Watched(l.from, l.from+1) > 0 {
			out = append(out, life{s.Watched(s.From, l.from), s.Watched(s.From, l.to), l.asks})
		}
	}
	return out
}

// less returns the sum of all but the n largest in each dimension.
func less(all []amounts, n int) (sum amounts) {
	for d := range sum {
		slices.SortFunc(all, func(a, b amounts) int { return cmp.Compare(a[d], b[d]) })
		for _, a := range all[:max(len(all)-n, 0)] {
			sum[d] += a[d]
		}
	}
	return sum
}

// peak returns when the pods that are there for a length of time from then on request most in a dimension.
func peak(all []life, length int64, d int) int64 {
	type change struct {
		at  int64
		sum float64
	}
	var changes []change
	for _, l := range all {
		if l.to-l.from >= length {
			changes = append(changes, change{l.from, l.asks[d]}, change{l.to - length + 1, -l.asks[d]})
		}
	}
	slices.SortFunc(changes, func(a, b change) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.sum, b.sum)) })
	var best int64
	var sum, most float64
	for _, c := range changes {
		if sum += c.sum; sum > most {
			best, most = c.at, sum
		}
	}
	return best
}

// sizes are the different amounts that pods request, in each dimension.
type sizes [len(amounts{})]map[int64]bool

// sizesOf returns the sizes of the pods that counts selects.
func sizesOf(s *replay.Source, counts func(*record.Pod) bool) (out sizes) {
	for d := range out {
		out[d] = map[int64]bool{}
	}
	for i := range s.Pods {
		if p := &s.Pods[i]; !p.Daemon && counts(p) {
			for d, x := range requested(p) {
				out[d][int64(x)] = true
			}
		}
	}
	return out
}

// maxSteps is the number of sums that filled looks at. Of more, it takes the room itself.
const maxSteps = 1 << 17

// filled returns the part of each room that the pods can fill at most, in a dimension: the largest sum of their sizes, each as often as
// wanted, that is not larger.
func (z sizes) filled(d int, rooms []float64) []float64 {
	out := slices.Clone(rooms)
	var unit, most int64
	for x := range z[d] {
		for a := x; a != 0; {
			unit, a = a, unit%a
		}
	}
	for _, r := range rooms {
		most = max(most, int64(r))
	}
	if unit == 0 || most/unit > maxSteps || (most/unit)*int64(len(z[d])) > 100*maxSteps {
		return out
	}
	best := make([]int64, most/unit+1) // by room: the largest sum
	sums := make([]bool, len(best))
	sums[0] = true
	for at := range best {
		for x := range z[d] {
			if step := int(x / unit); x > 0 && step <= at && sums[at-step] {
				sums[at] = true
				break
			}
		}
		if best[at] = int64(at); !sums[at] {
			best[at] = best[at-1]
		}
	}
	for i, r := range rooms {
		if r > 0 {
			out[i] = float64(best[int64(r)/unit] * unit)
		}
	}
	return out
}
