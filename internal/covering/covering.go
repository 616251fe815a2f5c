package covering

import (
	"cmp"
	"container/heap"
	"math"
	"slices"
)

// Problem holds the kinds of items and the demand.
type Problem struct {
	Prices []float64 // of one item of each kind; 0 or more
	Limits []int     // of each kind; 0 or more
	Rows   []Row
	unit   float64 // that prices are scaled by
	work   int     // numbers of tables that were changed
}

// Row is one need.
type Row struct {
	Offers []float64 // of one item of each kind; 0 or more
	Needs  float64
}

// scale is the divisor of a row.
func (r Row) scale() float64 {
	if r.Needs > tiny {
		return r.Needs
	}
	return 1
}

// Solution is the number of items of each kind.
type Solution struct {
	Counts []int
	Price  float64
	// Bound is a lower bound of every solution's price. It equals Price if the search was not cut.
	Bound float64
	// Row is the row that makes the bound high, or -1 if nothing costs anything.
	Row int
}

const (
	// maxBoxes is the number of linear programs after which the search is cut.
	maxBoxes = 4000
	// maxWork cuts it earlier if the programs are large: after about a second.
	maxWork = 1_000_000_000
)

// Solve returns the cheapest solution that it finds. ok is false if even the limits do not meet the needs; Row is then an unmet row.
func (p Problem) Solve() (out Solution, ok bool) {
	p.unit = max(slices.Max(append([]float64{0}, p.Prices...)), tiny)
	if row := p.short(p.Limits); row >= 0 {
		return Solution{Row: row, Price: math.Inf(1), Bound: math.Inf(1)}, false
	}
	out = Solution{Counts: slices.Clone(p.Limits), Row: -1}
	p.thin(out.Counts)
	out.Price = p.price(out.Counts)
	root := &box{least: make([]int, len(p.Prices)), most: p.Limits}
	p.relax(root)
	for i, d := range root.duals {
		if d > tiny*p.unit && (out.Row < 0 || d > root.duals[out.Row]) {
			out.Row = i
		}
	}
	open := &boxes{root}
	for range maxBoxes {
		if open.Len() == 0 || p.work > maxWork || (*open)[0].bound >= out.Price*(1-tiny) {
			break
		}
		p.branch(heap.Pop(open).(*box), open, &out)
	}
	out.Bound = out.Price
	for _, b := range *open {
		out.Bound = min(out.Bound, max(b.bound, 0))
	}
	return out, true
}

// branch takes over the rounded solution of a box, if it is cheaper, and splits the box at its most broken number.
func (p *Problem) branch(b *box, open *boxes, best *Solution) {
	counts := make([]int, len(b.x))
	split, most := -1, 1e-6
	for j, x := range b.x {
		x = min(max(x, float64(b.least[j])), float64(b.most[j]))
		counts[j] = int(math.Ceil(x - 1e-6))
		if broken := math.Abs(x - math.Round(x)); broken > most {
			split, most = j, broken
		}
	}
	if p.short(counts) < 0 {
		p.thin(counts)
		if price := p.price(counts); price < best.Price {
			best.Counts, best.Price = counts, price
		}
	}
	if split < 0 {
		if p.short(counts) < 0 {
			return
		}
		// Rounding errors: every number is whole and a need is not met. Any split will do.
		if split = wide(b); split < 0 {
			return
		}
	}
	at := int(math.Floor(min(max(b.x[split], float64(b.least[split])), float64(b.most[split])-1e-6)))
	low, high := &box{least: b.least, most: slices.Clone(b.most)}, &box{least: slices.Clone(b.least), most: b.most}
	low.most[split], high.least[split] = at, at+1
	for _, half := range []*box{low, high} {
		if p.short(half.most) >= 0 {
			continue
		}
		if p.relax(half); half.bound < best.Price*(1-tiny) {
			half.bound = max(half.bound, b.bound)
			heap.Push(open, half)
		}
	}
}

// wide returns a kind whose number is not settled in a box, or -1.
func wide(b *box) int {
	for j := range b.least {
		if b.most[j] > b.least[j] {
			return j
		}
	}
	return -1
}

// short returns a row that is not met, or -1.
func (p *Problem) short(counts []int) int {
	return slices.IndexFunc(p.Rows, func(r Row) bool { return !r.Met(counts) })
}

// Met reports whether the numbers of each kind meet the need.
func (r Row) Met(counts []int) bool {
	sum := 0.0
	for j, n := range counts {
		sum += r.Offers[j] * float64(n)
	}
	return sum >= r.Needs-tiny*math.Abs(r.Needs)
}

// thin removes unneeded items, the dearest first.
func (p *Problem) thin(counts []int) {
	order := make([]int, len(counts))
	for j := range order {
		order[j] = j
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(p.Prices[b], p.Prices[a]) })
	for _, j := range order {
		low, high := 0, counts[j] // the least number that meets the needs
		for low < high {
			counts[j] = (low + high) / 2
			if p.short(counts) < 0 {
				high = counts[j]
			} else {
				low = counts[j] + 1
			}
		}
		counts[j] = low
	}
}

func (p *Problem) price(counts []int) (sum float64) {
	for j, n := range counts {
		sum += p.Prices[j] * float64(n)
	}
	return sum
}

// boxes is a heap, the lowest bound first.
type boxes []*box

// Len implements heap.Interface.
func (b boxes) Len() int { return len(b) }

// Less implements heap.Interface.
func (b boxes) Less(i, j int) bool { return b[i].bound < b[j].bound }

// Swap implements heap.Interface.
func (b boxes) Swap(i, j int) { b[i], b[j] = b[j], b[i] }

// Push implements heap.Interface.
func (b *boxes) Push(x any) { *b = append(*b, x.(*box)) }

// Pop implements heap.Interface.
func (b *boxes) Pop() any {
	last := (*b)[len(*b)-1]
	*b = (*b)[:len(*b)-1]
	return last
}
