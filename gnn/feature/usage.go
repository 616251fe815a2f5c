package feature

import (
	"math"

	"gnnsched/internal/cluster"
)

func init() { Register(usage) }

// usage describes what nodes really use. All its features belong to candidates, to the pod and to the
// cluster, so that a measurement leaves the embeddings of nodes as they are.
var usage = &Set{
	Name:      "usage",
	Doc:       "Measured usage of CPU, memory, network and disk, or requests where nothing was measured.",
	Version:   1,
	Cluster:   []ClusterBlock{{Features: usedFeatures(), Fill: fillUsed}},
	Candidate: []CandidateBlock{{Features: usageFeatures(), Fill: fillUsage}},
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

// usageFeatures describe a candidate once the pod is placed there.
func usageFeatures() (out []Feature) {
	for _, kind := range []Feature{
		{Name: "", Doc: "mean usage of five minutes plus the pod's expected usage / capacity, within 0 and 4 before the addition"},
		{Name: "_std", Doc: "standard deviation of five minutes / capacity, within 0 and 4"},
		{Name: "_max", Doc: "maximum of an hour plus the pod's expected usage / capacity, within 0 and 4 before the addition"},
		{Name: "_trend", Doc: "change over five minutes / capacity, within ±4"},
	} {
		for d := range cluster.Dimension(cluster.Dimensions) {
			out = append(out, Feature{Name: "used_" + d.String() + kind.Name, Doc: kind.Doc})
		}
	}
	return append(out,
		Feature{Name: "used_rise", Doc: "sum over the dimensions of (usage after placement - mean over the candidates now) · what the pod adds / (their standard deviation + the pod's mean share + 0.01), as shares of capacity, times 4, within ±4: to first order, by how much the placement makes usage less even"},
		Feature{Name: "used_age", Doc: "age of the measurement / 300 s, within 0 and 1; 1 without one"},
		Feature{Name: "used_known", Doc: "measured dimensions / all"})
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
	expected perDimension                // what the pod uses
	before   [cluster.Dimensions]moments // of the candidates' usage / capacity
	added    perDimension                // mean over the candidates of the pod's usage / capacity
}

// usedRow holds the features of a node's usage, as shares of its capacity. It depends on nothing but the two versions.
type usedRow struct {
	node, usage                         cluster.Version
	at                                  float64      // of the measurement; -Inf without one
	measured                            float32      // see used_known
	before, deviation, most, trend, per perDimension // per is 1 / capacity, or 0
}

// used returns what the candidates use. It is computed once for each decision.
func (c *Candidates) used() *used {
	u := &c.measured
	if u.known {
		return u
	}
	u.known = true
	if missing := len(c.Nodes) - len(u.rows); missing > 0 {
		u.rows = append(u.rows, make([]usedRow, missing)...)
	}
	for d := range u.expected {
		u.expected[d] = float32(c.Pod.Expected(cluster.Dimension(d)))
	}
	var sum, squares, per perDimension
	for _, v := range c.Rows {
		r := &u.rows[v]
		r.sync(c.Nodes[v])
		for d, x := range &r.before {
			sum[d] += x
			squares[d] += x * x
			per[d] += r.per[d]
		}
	}
	n := max(float32(len(c.Rows)), 1)
	for d := range u.added {
		u.before[d] = moments{n: float64(n), sum: float64(sum[d]), squares: float64(squares[d])}
		if u.added[d] = u.expected[d] * per[d] / n; u.added[d] > limit {
			u.added[d], u.expected[d] = limit, limit*n/per[d]
		}
	}
	return u
}

// sync brings the row up to date with its node.
func (r *usedRow) sync(n *cluster.Node) {
	var version cluster.Version
	if n.Usage != nil {
		version = n.Usage.Version
	}
	if n.Unchanged(r.node) && version == r.usage && (version != 0 || n.Usage == nil) {
		return
	}
	*r = usedRow{node: n.Version, usage: version, at: math.Inf(-1)}
	if n.Usage != nil {
		r.at, r.measured = n.Usage.At, shareOf(&n.Usage.Known)
	}
	for d := range r.per {
		capacity := n.Capacity(cluster.Dimension(d))
		if capacity <= 0 {
			continue
		}
		s, per := n.Used(cluster.Dimension(d)), 1/capacity
		r.per[d], r.before[d], r.deviation[d] = float32(per), within(s.Mean*per, 0), within(s.Deviation*per, 0)
		r.most[d], r.trend[d] = within(s.HourMax*per, 0), within(s.Trend*per, -limit)
	}
}

// within bounds x by low and limit; 0 for what is not a number.
func within(x, low float64) float32 {
	if math.IsNaN(x) {
		return 0
	}
	return float32(max(min(x, limit), low))
}

// fillUsage writes the features of every candidate.
func fillUsage(c *Candidates, out Rows) {
	u := c.used()
	var mean, scale perDimension
	for d := range mean {
		mean[d], scale[d] = float32(u.before[d].mean()), 1/(float32(u.before[d].std())+u.added[d]+0.01)
	}
	for i, v := range c.Rows {
		r, row := &u.rows[v], (*[usageColumns]float32)(out.Row(i))
		var rise float32
		for d, per := range &r.per {
			add := per * u.expected[d]
			after := r.before[d] + add
			row[usageAfter+d], row[usageMax+d] = after, r.most[d]+add
			rise += (after - mean[d]) * scale[d] * add
		}
		*(*perDimension)(row[usageDeviation:]) = r.deviation
		*(*perDimension)(row[usageTrend:]) = r.trend
		row[usageRise], row[usageAge], row[usageMeasured] = clamp(limit*rise), r.age(c.Now), r.measured
	}
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
		out[3*d], out[3*d+1], out[3*d+2] = float32(u.before[d].mean()), float32(u.before[d].std()), u.added[d]
	}
	last := len(out) - 1
	if out[last] = 0; c.Pod.Usage != nil {
		out[last] = shareOf(&c.Pod.Usage.Known)
	}
}
