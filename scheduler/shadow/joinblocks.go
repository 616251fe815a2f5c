package shadow

import "gonum.org/v1/gonum/stat"

// Min is the number of blocks below which no interval should be made, and MaxLag the correlation of a block with the next one
// above which blocks are joined.
const (
	Min    = 10
	MaxLag = 0.2
)

// blockRounding is the difference of two values that is rounding.
const blockRounding = 1e-12

// Summable is the content of a stretch of time. Plus returns the content of two stretches together.
type Summable[T any] interface{ Plus(T) T }

// JoinBlocks joins each two blocks that follow each other until the values of a block and the next one hardly depend on each
// other, or until less than twice Min are left. lag is the correlation that remains.
func JoinBlocks[T Summable[T]](list []T, value func(T) float64) (out []T, lag float64) {
	for {
		if lag = lag1(list, value); lag <= MaxLag || len(list) < 2*Min {
			return list, lag
		}
		list = pairBlocks(list)
	}
}

// pairBlocks joins each two blocks that follow each other. A last single one is left out.
func pairBlocks[T Summable[T]](list []T) []T {
	out := make([]T, 0, len(list)/2)
	for i := 0; i+1 < len(list); i += 2 {
		out = append(out, list[i].Plus(list[i+1]))
	}
	return out
}

// lag1 returns the correlation of each value with the next one; 0 if the values are all the same.
func lag1[T any](list []T, value func(T) float64) float64 {
	if len(list) < 3 {
		return 0
	}
	v := make([]float64, len(list))
	for i, b := range list {
		v[i] = value(b)
	}
	mean := stat.Mean(v, nil)
	var with, own float64
	for i, x := range v {
		own += (x - mean) * (x - mean)
		if i > 0 {
			with += (x - mean) * (v[i-1] - mean)
		}
	}
	if own < blockRounding*blockRounding {
		return 0
	}
	return with / own
}
