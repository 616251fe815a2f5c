package published

import (
	"bytes"
	_ "embed"
	"encoding/csv"
	"fmt"
	"math"
	"strconv"
	"sync"
)

//go:embed published.csv
var file []byte

// figure is the published GPU allocation of a policy on a workload, in per cent of the cluster's
// GPUs: mean and standard deviation over ten seeds.
type figure struct {
	Mean100 float64 `json:"mean100"` // once the arrivals have asked for 100% of the GPUs
	SD100   float64 `json:"sd100"`
	Mean130 float64 `json:"mean130"` // at the end, at 130%
	SD130   float64 `json:"sd130"`
}

// tolerance returns the accepted distance of a mean at the end from the published one, in percentage points: twice the published standard
// deviation, but at least 0.3.
func (f figure) tolerance() float64 { return max(2*f.SD130, 0.3) }

// reproduces tells whether a mean at the end is within the tolerance of the published one.
func (f figure) reproduces(mean130 float64) bool {
	return math.Abs(mean130-f.Mean130) <= f.tolerance()
}

type key struct{ workload, policy string }

// find returns the published figure of a policy on a workload such as default or cpu100, and whether
// there is one.
func find(workload, policy string) (figure, bool) {
	f, known := table()[key{workload, policy}]
	return f, known
}

// Policies names the policies with published figures, the best one first.
var Policies = []string{"fgd", "gpu-best-fit", "gpu-packing", "gpu-clustering", "gpu-dot-product", "random"}

var table = sync.OnceValue(func() map[key]figure {
	r := csv.NewReader(bytes.NewReader(file))
	r.Comment = '#'
	rows, err := r.ReadAll()
	if err != nil {
		panic(err) // the file is part of the program
	}
	out := map[key]figure{}
	for _, row := range rows[1:] {
		var x [4]float64
		for i := range x {
			if x[i], err = strconv.ParseFloat(row[2+i], 64); err != nil {
				panic(fmt.Sprintf("published.csv: %v", err)) // the file is part of the program
			}
		}
		out[key{row[0], row[1]}] = figure{x[0], x[1], x[2], x[3]}
	}
	return out
})
