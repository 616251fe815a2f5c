// Package each holds the loops over all elements of a list that only differ in an expression.
package each

// Map returns f of each element; nil if there are none.
func Map[T, U any](all []T, f func(T) U) (out []U) {
	for _, x := range all {
		out = append(out, f(x))
	}
	return out
}

// Filter returns the elements for which is returns true; nil if there are none.
func Filter[T any](all []T, is func(T) bool) (out []T) {
	for _, x := range all {
		if is(x) {
			out = append(out, x)
		}
	}
	return out
}

// Count returns the number of elements for which is returns true.
func Count[T any](all []T, is func(T) bool) (n int) {
	for _, x := range all {
		if is(x) {
			n++
		}
	}
	return n
}

// Sum adds up f of each element, in their order.
func Sum[T any, N int | int64 | float32 | float64](all []T, f func(T) N) (sum N) {
	for _, x := range all {
		sum += f(x)
	}
	return sum
}
