package feature

import (
	"math"

	"gnnsched/internal/cluster"
)

func init() { Register(usage) }

// usage describes what nodes really use. All its features belong to candidates, to the pod and to the
// cluster, so that a measurement leaves the embeddings of nodes as they are.
var usage = &Set{
	Name:    "usage",
	Doc:     "Measured usage of CPU, memory, network and disk, or requests where nothing was measured.",
	Version: 1,
	Cluster: []ClusterBlock{{Features: usedFeatures(), Fill: fillUsed}},
	Candidate: []CandidateBlock{{Features: usageFeatures(), Fill: fillUsage,
		Split: &Split{Adds: usageAdds(), Kept: keptUsage, Fill: fillMoving}}},
}

// oldest is the age in seconds of a measurement at which its feature reaches 1.
const oldest = cluster.UsageWindow

// The columns of a candidate's features: one for each dimension and kind, then those of all.
const (
	usageAfter = cluster.Dimensions * iota
	usageDeviation
	usageMax
	usageTrend
	usageRise
	usageAge      = usageRise + 1
	usageMeasured = usageAge + 1
	usageColumns  = usageMeasured + 1
)

// The moving numbers of a candidate: what the pod adds in each dimension, then those of all.
const (
	movingRise = cluster.Dimensions + iota
	movingAge
	movingColumns
)

// usageAdds returns the features that each moving number is added to.
func usageAdds() (out [][]int) {
	for d := range cluster.Dimensions {
		out = append(out, []int{usageAfter + d, usageMax + d})
	}
	return append(out, []int{usageRise}, []int{usageAge})
}

// usageFeatures describe a candidate once the pod is placed there.
func usageFeatures() (out []Feature) {
	for _, kind := range []Feature{
		{Name: "", Doc: "mean usage of five minutes plus the pod's expected usage / capacity, within 0 and 4 before the addition", In: Amount},
		{Name: "_std", Doc: "standard deviation of five minutes / capacity, within 0 and 4", In: Amount},
		{Name: "_max", Doc: "maximum of an hour plus the pod's expected usage / capacity, within 0 and 4 before the addition", In: Amount},
		{Name: "_trend", Doc: "change over five minutes / capacity, within ±4"},
	} {
		for d := range cluster.Dimension(cluster.Dimensions) {
			out = append(out, Feature{Name: "used_" + d.String() + kind.Name, Doc: kind.Doc, In: kind.In})
		}
	}
	return append(out,
		Feature{Name: "used_rise", Doc: "sum over the dimensions of (usage after placement - mean over the candidates now) · what the pod " +
			"adds / (their standard deviation + the pod's mean share + 0.01), as shares of capacity, times 4, within ±4: to first order, " +
			"by how much the placement makes usage less even"},
		Feature{Name: "used_age", Doc: "age of the measurement / 300 s, within 0 and 1; 1 without one", In: Fraction},
		Feature{Name: "used_known", Doc: "measured dimensions / all", In: Fraction})
}

// usedFeatures describe the candidates together, before placement, and the pod.
func usedFeatures() (out []Feature) {
	for d := range cluster.Dimension(cluster.Dimensions) {
		out = append(out,
			Feature{Name: "used_" + d.String(), Doc: "mean over the candidates of mean usage / capacity"},
			Feature{Name: "used_" + d.String() + "_std", Doc: "standard deviation of the same"},
			Feature{Name: "add_" + d.String(), Doc: "mean over the candidates of the pod's expected usage / capacity, at most 4"})
	}
	return append(out, Feature{Name: "pod_known", Doc: "dimensions in which the usage of the pod's workload is known / all"})
}

// perDimension holds one number for each dimension.
type perDimension = [cluster.Dimensions]float32

// used holds what nodes use.
type used struct {
	known    bool                        // whether before and added are those of the decision
	rows     []usedRow                   // of all nodes, kept between decisions
	kept     []Kept                      // of rows
	expected perDimension                // what the pod uses
	before   [cluster.Dimensions]moments // of the candidates' usage / capacity
	added    perDimension                // mean over the candidates of the pod's usage / capacity
}

// usedRow holds the features of a node's usage, as shares of its capacity. It depends on nothing but the two versions.
type usedRow struct {
	node, usage cluster.Version
	at          float64               // of the measurement; -Inf without one
	per         perDimension          // 1 / capacity, or 0
	kept        [usageColumns]float32 // the features without the pod: rise and age are 0
}

// used returns what the candidates use. It is computed once for each decision.
func (c *Candidates) used() *used {
	u := &c.measured
	if u.known {
		return u
	}
	u.known = true
	u.grow(len(c.Nodes))
	for d := range u.expected {
		u.expected[d] = float32(c.Pod.Expected(cluster.Dimension(d)))
	}
	var sum, squares, per perDimension
	for _, v := range c.Rows {
		r, n := &u.rows[v], c.Nodes[v]
		if !r.current(n) {
			r.set(n)
			u.kept[v].Stamp = uint64(cluster.NextVersion())
		}
		for d, x := range r.before() {
			sum[d] += x
			squares[d] += x * x
			per[d] += r.per[d]
		}
	}
	n := max(float32(len(c.Rows)), 1)
	for d := range u.added {
		u.before[d] = moments{cluster.Sums{N: float64(n), Sum: float64(sum[d]), Squares: float64(squares[d])}}
		if u.added[d] = u.expected[d] * per[d] / n; u.added[d] > limit {
			u.added[d], u.expected[d] = limit, limit*n/per[d]
		}
	}
	return u
}

// grow makes room for n nodes.
func (u *used) grow(n int) {
	if missing := n - len(u.rows); missing > 0 {
		u.rows, u.kept = append(u.rows, make([]usedRow, missing)...), append(u.kept, make([]Kept, missing)...)
		for i := range u.rows { // which may have moved
			u.kept[i].X = u.rows[i].kept[:]
		}
	}
}

// current reports whether the row is that of the node's state.
func (r *usedRow) current(n *cluster.Node) bool {
	if !n.Unchanged(r.node) {
		return false
	}
	if n.Usage == nil {
		return r.usage == 0
	}
	return r.usage == n.Usage.Version && r.usage != 0
}

// set computes the row.
func (r *usedRow) set(n *cluster.Node) {
	*r = usedRow{node: n.Version, at: math.Inf(-1)}
	if n.Usage != nil {
		r.usage, r.at, r.kept[usageMeasured] = n.Usage.Version, n.Usage.At, shareOf(&n.Usage.Known)
	}
	if n.Usage != nil && n.Usage.Version == 0 {
		r.node = 0 // what has no version is never kept
	}
	for d := range r.per {
		capacity := n.Capacity(cluster.Dimension(d))
		if capacity <= 0 {
			continue
		}
		s, per := n.Used(cluster.Dimension(d)), 1/capacity
		r.per[d] = float32(per)
		r.kept[usageAfter+d], r.kept[usageDeviation+d] = within(s.Mean*per, 0), within(s.Deviation*per, 0)
		r.kept[usageMax+d], r.kept[usageTrend+d] = within(s.HourMax*per, 0), within(s.Trend*per, -limit)
	}
}

// before returns the mean usage / capacity of each dimension.
func (r *usedRow) before() *perDimension { return (*perDimension)(r.kept[usageAfter:]) }

// within bounds x by low and limit; 0 for NaN.
func within(x, low float64) float32 {
	if math.IsNaN(x) {
		return 0
	}
	return float32(max(min(x, limit), low))
}

// fillUsage writes the features of every candidate.
func fillUsage(c *Candidates, out Rows) {
	u := c.used()
	added := u.adding()
	for i, v := range c.Rows {
		r, row := &u.rows[v], (*[usageColumns]float32)(out.Row(i))
		*row = r.kept
		var add perDimension
		row[usageRise], row[usageAge] = added.by(r, &add), r.age(c.Now)
		for d, x := range &add {
			row[usageAfter+d] += x
			row[usageMax+d] += x
		}
	}
}

// fillMoving writes the moving numbers of every candidate.
func fillMoving(c *Candidates, out Rows) {
	u := c.used()
	added := u.adding()
	for i, v := range c.Rows {
		r, row := &u.rows[v], (*[movingColumns]float32)(out.Row(i))
		row[movingRise] = added.by(r, (*perDimension)(row[:]))
		row[movingAge] = r.age(c.Now)
	}
}

// keptUsage returns the features of the nodes without the pod.
func keptUsage(c *Candidates) []Kept { return c.used().kept[:len(c.Nodes)] }

// adding computes what the pod adds to a candidate.
type adding struct{ expected, mean, scale perDimension }

func (u *used) adding() adding {
	a := adding{expected: u.expected}
	for d := range a.mean {
		a.mean[d], a.scale[d] = float32(u.before[d].Mean()), 1/(float32(u.before[d].Std())+u.added[d]+0.01)
	}
	return a
}

// by sets add to the shares of the node's capacity that the pod adds, and returns the feature used_rise.
func (a *adding) by(r *usedRow, add *perDimension) float32 {
	var rise float32
	before := r.before()
	for d, expected := range &a.expected {
		if expected == 0 { // as network and disk of most pods, because nobody requests them
			add[d] = 0
			continue
		}
		add[d] = r.per[d] * expected
		rise += (before[d] + add[d] - a.mean[d]) * a.scale[d] * add[d]
	}
	return clamp(limit * rise)
}

// age returns the age of the measurement as its feature.
func (r *usedRow) age(now float64) float32 {
	x := float32((now - r.at) * (1. / oldest))
	if x > 1 {
		return 1
	}
	if x < 0 {
		return 0
	}
	return x
}

// shareOf returns the share of the dimensions that are known.
func shareOf(known *[cluster.Dimensions]bool) float32 {
	n := 0
	for _, k := range known {
		if k {
			n++
		}
	}
	return float32(n) / cluster.Dimensions
}

// fillUsed writes the features of the cluster.
func fillUsed(c *Candidates, out []float32) {
	u := c.used()
	for d := range u.before {
		out[3*d], out[3*d+1], out[3*d+2] = float32(u.before[d].Mean()), float32(u.before[d].Std()), u.added[d]
	}
	last := len(out) - 1
	if out[last] = 0; c.Pod.Usage != nil {
		out[last] = shareOf(&c.Pod.Usage.Known)
	}
}
