package shadow

import (
	"math"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// Block holds the means of a stretch of time.
type Block struct {
	Seconds       float64 `json:"seconds"`
	Theirs        float64 `json:"theirs"` // cost of the real cluster
	Ours          float64 `json:"ours"`   // cost of the cluster with the profile's choices
	TheirsWaiting float64 `json:"theirsWaiting"`
	OursWaiting   float64 `json:"oursWaiting"`
}

// Plus adds the time of another block.
func (b Block) Plus(o Block) Block {
	t := b.Seconds + o.Seconds
	if t == 0 {
		return b
	}
	mean := func(x, y float64) float64 { return (x*b.Seconds + y*o.Seconds) / t }
	return Block{t, mean(b.Theirs, o.Theirs), mean(b.Ours, o.Ours), mean(b.TheirsWaiting, o.TheirsWaiting), mean(b.OursWaiting, o.OursWaiting)}
}

// maxBlocks is the number of blocks that are kept. Beyond it, blocks become twice as long.
const maxBlocks = 2048

// timeline collects the time of a run in blocks of equal length.
type timeline struct {
	length float64 // of a block, in seconds
	full   []Block
	last   Block // the unfinished block
}

// add adds a stretch of time, in which nothing changed.
func (b *timeline) add(of Block) {
	for of.Seconds > 0 {
		part := of
		part.Seconds = min(of.Seconds, b.length-b.last.Seconds)
		of.Seconds -= part.Seconds
		b.last = b.last.Plus(part)
		if b.last.Seconds < b.length*(1-rounding) {
			return
		}
		b.full, b.last = append(b.full, b.last), Block{}
		if len(b.full) == maxBlocks {
			b.full, b.length = pairBlocks(b.full), 2*b.length
		}
	}
}

// all returns the mean over the whole time.
func (b *timeline) all() Block {
	sum := b.last
	for _, x := range b.full {
		sum = sum.Plus(x)
	}
	return sum
}

// Estimate is a mean over time with a 95 % interval.
type Estimate struct {
	Mean float64 `json:"mean"`
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

// estimate returns the mean of a value over batches, with the interval of Student's t (the method of batch means:
// Law, Simulation Modeling and Analysis, 5th ed., section 9.5.3). It needs two batches at least.
func estimate(list []Block, value func(Block) float64) Estimate {
	v := make([]float64, len(list))
	for i, b := range list {
		v[i] = value(b)
	}
	mean, std := stat.MeanStdDev(v, nil)
	n := float64(len(v))
	half := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: n - 1}.Quantile(0.975) * std / math.Sqrt(n)
	return Estimate{mean, mean - half, mean + half}
}

// gained is the reduction of the cost by the profile's choices.
func gained(b Block) float64 { return b.Theirs - b.Ours }

// waitedLonger is the number of additional waiting pods with the profile's choices.
func waitedLonger(b Block) float64 { return b.OursWaiting - b.TheirsWaiting }

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
