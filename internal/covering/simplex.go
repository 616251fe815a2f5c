package covering

// tiny is the bound under which an amount counts as zero. Rows and prices are scaled to about 1.
const tiny = 1e-9

// box has a linear program: a problem without whole numbers, between least and most.
type box struct {
	least, most []int
	bound       float64   // no x in the box costs less
	x           []float64 // a solution of the linear program
	duals       []float64 // of the rows, scaled so that they add up to the price
}

// relax solves the linear program of a box. It applies the simplex method to the dual program, which begins feasible because no price is
// negative. There is a row for each column of the problem. The variables are the duals of the rows, the duals of the limits, and the
// slacks.
func (p *Problem) relax(b *box) {
	n, m := len(p.Prices), len(p.Rows)
	needs := make([]float64, m) // the needs minus the offers of the box's lower limits
	for i, r := range p.Rows {
		needs[i] = r.Needs
		for j, offer := range r.Offers {
			needs[i] -= offer * float64(b.least[j])
		}
	}
	width := m + 2*n
	table, basis := make([][]float64, n+1), make([]int, n) // the last row is the objective, the last column the right side
	for j := range n {
		row := make([]float64, width+1)
		for i, r := range p.Rows {
			row[i] = r.Offers[j] / r.scale()
		}
		row[m+j], row[m+n+j], row[width] = -1, 1, p.Prices[j]/p.unit
		table[j], basis[j] = row, m+n+j
	}
	table[n] = make([]float64, width+1)
	for i, r := range p.Rows {
		table[n][i] = needs[i] / r.scale()
	}
	for j := range n {
		table[n][m+j] = -float64(b.most[j] - b.least[j])
	}
	for i := range 50 * (width + 1) {
		if p.work += n * width; !pivot(table, basis, i > width) {
			break
		}
	}
	duals := make([]float64, m)
	for j, k := range basis {
		if k < m {
			duals[k] = max(table[j][width], 0) / p.Rows[k].scale() * p.unit
		}
	}
	b.x = make([]float64, n)
	for j := range n {
		b.x[j] = float64(b.least[j]) - table[n][m+n+j]
	}
	b.bound, b.duals = p.weigh(b, needs, duals), make([]float64, m)
	for i := range duals {
		b.duals[i] = duals[i] * p.Rows[i].Needs
	}
}

// pivot makes one step; it returns false at the optimum. careful chooses by Bland's rule, which never comes back to a table, instead of
// the steepest rise.
func pivot(table [][]float64, basis []int, careful bool) bool {
	n := len(basis)
	width := len(table[n]) - 1
	enters := -1
	for k, rise := range table[n][:width] {
		if rise > tiny && (enters < 0 || rise > table[n][enters]) {
			if enters = k; careful {
				break
			}
		}
	}
	if enters < 0 {
		return false
	}
	leaves := -1
	for j := range n {
		if table[j][enters] <= tiny {
			continue
		}
		if leaves >= 0 {
			here, there := table[j][width]*table[leaves][enters], table[leaves][width]*table[j][enters]
			if here > there || here == there && basis[j] > basis[leaves] {
				continue
			}
		}
		leaves = j
	}
	if leaves < 0 {
		return false // the box has no solution
	}
	scale := table[leaves][enters]
	for k := range table[leaves] {
		table[leaves][k] /= scale
	}
	for j := range table {
		if by := table[j][enters]; j != leaves && by != 0 {
			for k := range table[j] {
				table[j][k] -= by * table[leaves][k]
			}
		}
	}
	basis[leaves] = enters
	return true
}

// weigh returns the lower bound that any duals give: the needs' value minus the limits' value.
func (p *Problem) weigh(b *box, needs, duals []float64) (bound float64) {
	for i := range duals {
		bound += needs[i] * duals[i]
	}
	for j, price := range p.Prices {
		worth := 0.0
		for i, r := range p.Rows {
			worth += r.Offers[j] * duals[i]
		}
		bound += price*float64(b.least[j]) - float64(b.most[j]-b.least[j])*max(worth-price, 0)
	}
	return bound
}
