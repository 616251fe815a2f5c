package migrun

import (
	"errors"
	"fmt"
	"slices"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/optimize/convex/lp"

	"gnnsched/internal/cluster/mig"
)

// counts are numbers of partitions, by profile.
type counts [mig.Count]int

func (c counts) compute() (n int) {
	for p, k := range c {
		n += k * mig.Profile(p).Compute()
	}
	return n
}

// within reports whether c is at most d.
func (c counts) within(d counts) bool {
	for p := range c {
		if c[p] > d[p] {
			return false
		}
	}
	return true
}

// configurations are the numbers of partitions that fit on one GPU together and are not within
// others, those with most compute slices first.
var configurations = enumerate()

func enumerate() (out []counts) {
	all := map[counts]bool{}
	var place func(used mig.Slices, now counts)
	seen := map[mig.Slices]map[counts]bool{}
	place = func(used mig.Slices, now counts) {
		if seen[used] == nil {
			seen[used] = map[counts]bool{}
		}
		if seen[used][now] {
			return
		}
		seen[used][now], all[now] = true, true
		for _, p := range mig.Profiles() {
			for s := range p.Free(used) {
				next := now
				next[p]++
				place(used|p.On(s), next)
			}
		}
	}
	place(0, counts{})
	for c := range all {
		within := false
		for d := range all {
			within = within || c != d && c.within(d)
		}
		if !within {
			out = append(out, c)
		}
	}
	slices.SortFunc(out, func(a, b counts) int {
		if d := b.compute() - a.compute(); d != 0 {
			return d
		}
		return slices.Compare(a[:], b[:])
	})
	return out
}

// maxStates bounds the work of optimum.
const maxStates = 200_000

// errTooLarge means that there are too many ways to place pods for optimum.
var errTooLarge = errors.New("too many placements to try")

// optimum returns the most compute slices that pods can get on so many idle GPUs: the optimum of the integer program that chooses a
// configuration of partitions for each GPU. It knows all arrivals and may leave out any pod. Branch and bound finds it.
func optimum(pods [mig.Count]int, gpus int) (int, error) {
	return optimumWithin(pods, gpus, maxStates)
}

// optimumWithin is optimum with a limit on the states that are kept.
func optimumWithin(pods [mig.Count]int, gpus, limit int) (int, error) {
	s := search{map[node]int{}, limit}
	most := s.most(node{pods, gpus})
	if len(s.known) >= limit {
		return 0, fmt.Errorf("%d GPUs: %w", gpus, errTooLarge)
	}
	return most, nil
}

// node is what is left to do: pods that have no place, and GPUs that are idle.
type node struct {
	left counts
	gpus int
}

type search struct {
	known map[node]int
	limit int // of what is known
}

// most returns the most compute slices that can be allocated from a node on.
func (s *search) most(n node) (best int) {
	bound := min(n.gpus*mig.Compute, n.left.compute())
	if bound == 0 || len(s.known) >= s.limit {
		return 0
	}
	if v, has := s.known[n]; has {
		return v
	}
	for _, c := range configurations {
		next, got := n, counts{}
		for p := range c {
			got[p] = min(c[p], n.left[p])
			next.left[p] -= got[p]
		}
		next.gpus--
		if v := got.compute() + min(next.gpus*mig.Compute, next.left.compute()); v <= best {
			continue
		}
		if v := got.compute() + s.most(next); v > best {
			best = v
		}
		if best == bound {
			break
		}
	}
	s.known[n] = best
	return best
}

// relaxed returns the optimum of the relaxation of optimum's integer program, in which a GPU can have parts of several configurations
// (Gilmore and Gomory 1961). No policy can allocate more compute slices.
func relaxed(pods [mig.Count]int, gpus int) (float64, error) {
	var asked []mig.Profile
	for _, p := range mig.Profiles() {
		if pods[p] > 0 {
			asked = append(asked, p)
		}
	}
	if len(asked) == 0 || gpus == 0 {
		return 0, nil
	}
	// Variables: a share of each configuration, y of each profile's partitions that serve pods, and slacks.
	// y_p <= Σ_c x_c·c_p, y_p <= pods_p, Σ_c x_c <= gpus. Maximise Σ_p y_p·compute_p.
	k, n := len(asked), len(configurations)
	columns := n + 3*k + 1
	a := mat.NewDense(2*k+1, columns, nil)
	b, cost := make([]float64, 2*k+1), make([]float64, columns)
	for i, p := range asked {
		for j, c := range configurations {
			a.Set(i, j, -float64(c[p]))
		}
		a.Set(i, n+i, 1)
		a.Set(i, n+k+i, 1)
		a.Set(k+i, n+i, 1)
		a.Set(k+i, n+2*k+i, 1)
		b[k+i] = float64(pods[p])
		cost[n+i] = -float64(p.Compute())
	}
	for j := range configurations {
		a.Set(2*k, j, 1)
	}
	a.Set(2*k, columns-1, 1)
	b[2*k] = float64(gpus)
	basis := make([]int, 2*k+1) // the slacks: nothing is placed
	for i := range k {
		basis[i], basis[k+i] = n+k+i, n+2*k+i
	}
	basis[2*k] = columns - 1
	least, _, err := lp.Simplex(cost, a, b, 1e-9, basis)
	if err != nil {
		return 0, fmt.Errorf("bound of %v on %d GPUs: %w", pods, gpus, err)
	}
	return -least, nil
}

// bound returns the most that any policy can allocate of the compute slices, 0 to 1, when the arrivals of a seed have requested each of the
// ascending loads. most is relaxed, or another bound of the compute slices that pods can get on so many GPUs.
func (m Machines) bound(x Mix, loads []float64, seed uint64,
	most func(pods [mig.Count]int, gpus int) (float64, error)) (out []float64, err error) {
	pods, asked := make([][mig.Count]int, len(m.Models)), 0
	for _, a := range m.arriving(x, loads[len(loads)-1], seed) {
		pods[a.model][a.profile]++
		asked += a.profile.Compute()
		for len(out) < len(loads) && float64(asked) >= loads[len(out)]*float64(m.compute()) {
			sum := 0.0
			for _, of := range pods {
				n, err := most(of, m.Each*m.GPUs)
				if err != nil {
					return nil, err
				}
				sum += n
			}
			out = append(out, sum/float64(m.compute()))
		}
	}
	return out, nil
}
