package plan

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"gnnsched/internal/covering"
)

// holds plays the work on a mix, unless that was done. A mix that holds the work and is the cheapest so far becomes the best.
func (b *purchase) holds(ctx context.Context, counts []int) (bool, error) {
	key := fmt.Sprint(counts)
	o, known := b.tried[key]
	if !known {
		if b.spent() {
			return false, errSpent
		}
		var err error
		if o, err = b.play(ctx, b.fleet.with(counts)); err != nil {
			return false, err
		}
		b.tried[key], b.played = o, append(b.played, counts)
	}
	if !o.holds(b.target, b.out.Recorded) {
		if !known {
			b.fails = append(b.fails, counts)
		}
		return false, nil
	}
	if b.best == nil || b.price(counts) < b.price(b.best) {
		b.best, b.out.With = counts, o
	}
	return true, nil
}

const (
	bisections = 5
	maxLevel   = 300 // times the highest requests
	// maxFleet is the number of nodes over which no mix is played.
	maxFleet = 20_000
)

// grow looks for a mix that holds the work: first the cheapest cover of the least need, then of more and more. Between the last cover that
// fails and the first that holds the work, it bisects.
func (b *purchase) grow(ctx context.Context) error {
	low, high, more := -1.0, 0.0, 0.05
	for {
		counts, ok := b.cover(high)
		if !ok {
			counts = b.all()
		}
		if nodesIn(counts) > maxFleet {
			b.out.Why = fmt.Sprintf("the work needs more than %d nodes", maxFleet)
			return nil
		}
		holds, err := b.holds(ctx, counts)
		if err != nil {
			return err
		}
		if holds {
			break
		}
		if !ok {
			b.out.Why = "all nodes of the types together miss the target"
			return nil
		}
		if low = high; high > maxLevel {
			b.out.Why = fmt.Sprintf("nodes for %d times what the pods request miss the target", maxLevel)
			return nil
		}
		if high < 1 {
			high += 0.5
		} else {
			high, more = high+more, 2*more
		}
	}
	for range bisections {
		middle := (low + high) / 2
		counts, ok := b.cover(middle)
		if low < 0 || !ok {
			return nil
		}
		holds, err := b.holds(ctx, counts)
		if err != nil {
			return err
		}
		if holds {
			high = middle
		} else {
			low = middle
		}
	}
	return nil
}

// cover returns the cheapest cover of a level; ok is false if there is none.
func (b *purchase) cover(level float64) ([]int, bool) {
	s, ok := b.problem(level).Solve()
	return s.Counts, ok
}

func nodesIn(counts []int) (sum int) {
	for _, n := range counts {
		sum += n
	}
	return sum
}

// all returns all nodes that can be had.
func (b *purchase) all() (out []int) {
	for _, t := range b.fleet.types {
		out = append(out, t.Limit)
	}
	return out
}

// search improves the mix that was grown, and then the same one again with another order of the steps. The cheaper result counts.
func (b *purchase) search(ctx context.Context) error {
	grown, with := b.best, b.out.With
	if err := b.improve(ctx, halving); err != nil {
		return err
	}
	first, outcome := b.best, b.out.With
	b.best, b.out.With = grown, with
	err := b.improve(ctx, func(sorted [][]int) [][]int { return sorted })
	if b.price(first) <= b.price(b.best) {
		b.best, b.out.With = first, outcome
	}
	return err
}

// improve takes nodes away, or exchanges them for cheaper ones of another type, as long as the work is held. When no step is left, it tries
// the mixes that differ little from the best one, the dearest first: those most probably hold the work. Steps to fewer nodes than did not
// hold the work are left out. They may hold it all the same, where a profile spreads pods over all nodes and leaves no room for large ones.
func (b *purchase) improve(ctx context.Context, order func(sorted [][]int) [][]int) error {
	for {
		better, err := b.try(ctx, slices.DeleteFunc(order(b.steps()), b.dominated))
		if err == nil && !better {
			better, err = b.try(ctx, b.near())
		}
		if err != nil || !better {
			return err
		}
	}
}

// try plays mixes until one holds the work.
func (b *purchase) try(ctx context.Context, mixes [][]int) (bool, error) {
	for _, counts := range mixes {
		if holds, err := b.holds(ctx, counts); holds || err != nil {
			return holds, err
		}
	}
	return false, nil
}

// worth reports whether a mix is cheaper than the best one, and not too small or too cheap by the bounds.
func (b *purchase) worth(counts []int) bool {
	p := b.price(counts)
	return b.saves(p) && !slices.ContainsFunc(b.rows, func(r covering.Row) bool { return !r.Met(counts) })
}

// saves reports whether a price is lower than the best mix's, and not lower than the bound.
func (b *purchase) saves(price float64) bool {
	return price < b.price(b.best)*(1-1e-9) && price >= b.out.Bound*(1-1e-9)
}

// near returns the mixes worth a try that have up to two nodes more or less of each type than the best one. With more than five types the
// limit is one node, and only types of played mixes vary. The dearest come first.
func (b *purchase) near() (out [][]int) {
	var kinds []int
	for k, t := range b.fleet.types {
		used := slices.ContainsFunc(b.played, func(counts []int) bool { return counts[k] > 0 })
		if t.Limit > 0 && (used || len(b.fleet.types) <= 5) && len(kinds) < 8 {
			kinds = append(kinds, k)
		}
	}
	reach := 2
	if len(kinds) > 5 {
		reach = 1
	}
	var visit func(int, []int)
	visit = func(at int, counts []int) {
		if at == len(kinds) {
			if b.worth(counts) {
				out = append(out, slices.Clone(counts))
			}
			return
		}
		k := kinds[at]
		for n := max(b.best[k]-reach, 0); n <= min(b.best[k]+reach, b.fleet.types[k].Limit); n++ {
			counts[k] = n
			visit(at+1, counts)
		}
		counts[k] = b.best[k]
	}
	visit(0, slices.Clone(b.best))
	slices.SortFunc(out, func(x, y []int) int { return cmp.Or(cmp.Compare(b.price(y), b.price(x)), slices.Compare(x, y)) })
	return out
}

// steps returns the mixes that are one step from the best one and worth a try. The cheapest come first.
func (b *purchase) steps() (out [][]int) {
	types, price := b.fleet.types, b.price(b.best)
	add := func(from, n, to, m int) {
		change := -float64(n) * types[from].Price
		if to >= 0 {
			change += float64(m) * types[to].Price
		}
		if !b.saves(price + change) {
			return // most are dearer
		}
		next := slices.Clone(b.best)
		if next[from] -= n; to >= 0 {
			next[to] += m
		}
		if b.worth(next) {
			out = append(out, next)
		}
	}
	for from, have := range b.best {
		for _, n := range b.batches(from, have) {
			add(from, n, -1, 0)
			for to := range b.best {
				for _, m := range b.inPlace(from, n, to) {
					add(from, n, to, m)
				}
			}
		}
	}
	slices.SortFunc(out, func(x, y []int) int { return cmp.Or(cmp.Compare(b.price(x), b.price(y)), slices.Compare(x, y)) })
	return slices.CompactFunc(out, slices.Equal)
}

// halving takes the mixes from the cheapest to the dearest and puts first one with half of them before it, then with half of the rest
// before it too, and so on. So a mix that holds the work is found soon, and is not always the dearest. The others come last, the dearest
// first.
func halving(sorted [][]int) (out [][]int) {
	first := make([]bool, len(sorted))
	for left := len(sorted) / 2; left > 0; left /= 2 {
		at := len(sorted) - 1 - left
		out, first[at] = append(out, sorted[at]), true
	}
	for i := len(sorted) - 1; i >= 0; i-- {
		if !first[i] {
			out = append(out, sorted[i])
		}
	}
	return out
}

// batches returns the numbers of nodes of a type that a step may remove: powers of two, and the number that costs just more than one node
// of another type.
func (b *purchase) batches(from, have int) (out []int) {
	for n := 1; n <= have; n *= 2 {
		out = append(out, n)
	}
	price := b.fleet.types[from].Price
	for to := range b.fleet.types {
		if n := math.Floor(b.fleet.types[to].Price/price) + 1; price > 0 && to != from && n <= float64(have) {
			out = append(out, int(n))
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// inPlace returns the numbers of nodes of another type that may replace n: as many as are cheaper together, and half of that.
func (b *purchase) inPlace(from, n, to int) []int {
	if from == to {
		return nil
	}
	most := b.fleet.types[to].Limit - b.best[to]
	if price := b.fleet.types[to].Price; price > 0 {
		most = int(math.Min(float64(most), math.Ceil(float64(n)*b.fleet.types[from].Price/price)-1))
	}
	switch {
	case most <= 0:
		return nil
	case most == 1:
		return []int{1}
	}
	return []int{most, (most + 1) / 2}
}

// dominated reports whether a mix that does not hold the work has as many nodes of each type.
func (b *purchase) dominated(counts []int) bool {
	return slices.ContainsFunc(b.fails, func(f []int) bool {
		for k, n := range counts {
			if n > f[k] {
				return false
			}
		}
		return true
	})
}
