// Package covering finds the cheapest whole numbers of items that together cover a demand.
//
//	minimise   price · x
//	such that  offers · x >= needs for each row, 0 <= x <= limit, x whole
//
// Branch and bound over linear programs. The bound of each program is computed from its dual variables, so it holds despite the rounding
// errors of the simplex method. gonum's lp.Simplex returns no dual variables.
package covering
