package usage

// Demand is the demand of one pod on a node.
type Demand struct {
	Want    Amounts
	Request float64 // cores that the pod requests; its weight when CPU is short
	Limit   float64 // cores that the pod may use at most; 0: no limit
}

// minWeight is the weight of a pod that requests no CPU, in cores: the least of cgroup's CPU shares, 2 of 1024 a core.
const minWeight = 2.0 / 1024

// Share sets got[i] to the part of a node's capacity that demands[i] gets; got has the same length. A capacity of 0 means that the
// dimension is not limited.
//
// CPU is divided by weighted max-min fairness: a pod gets its demand, or at least its weight's part of the others' remainder. Weights are
// the requests, as with cgroup's CPU shares, so a pod gets its request before any pod gets more. A pod never gets more than its limit.
// Network and disk are divided likewise with equal weights. Memory is not shared: each pod gets its demand.
//
// Unlike in a kubelet's cgroups, pods without requests do not have one small weight together but one each. Share does not allocate.
func Share(capacity Amounts, demands []Demand, got []Amounts) {
	for d := range Dimension(Dimensions) {
		share(d, capacity[d], demands, got)
	}
}

// share is Share in one dimension.
func share(d Dimension, capacity float64, demands []Demand, got []Amounts) {
	total := 0.0
	for i := range demands {
		w := demands[i].wants(d)
		got[i][d] = w
		total += w
	}
	if !shared(d) || capacity <= 0 || total <= capacity {
		return
	}
	var memory [3][64]float64 // on the stack; enough for most nodes
	wants, weights, parts := memory[0][:0], memory[1][:0], memory[2][:0]
	for i := range demands {
		wants, weights, parts = append(wants, demands[i].wants(d)), append(weights, demands[i].weight(d)), append(parts, 0)
	}
	Divide(capacity, wants, weights, parts)
	for i, x := range parts {
		got[i][d] = x
	}
}

// wants returns the pod's demand in a dimension, within its limit.
func (p *Demand) wants(d Dimension) float64 {
	if d == CPU && p.Limit > 0 {
		return min(p.Want[CPU], p.Limit)
	}
	return p.Want[d]
}

func (p *Demand) weight(d Dimension) float64 {
	if d == CPU {
		return Weight(p.Request)
	}
	return 1
}

// Weight returns the weight of a pod with the given CPU request in cores, when CPU is short.
func Weight(request float64) float64 { return max(request, minWeight) }

// Divide sets got to the parts of a capacity that is less than the sum of wants. Round by round, pods whose demand is at most their
// weight's part of the remainder get their demand; the others then get their parts. The slices have the same length.
func Divide(capacity float64, wants, weights, got []float64) {
	const open = -1
	weights, got = weights[:len(wants)], got[:len(wants)]
	for i := range got {
		got[i] = open
	}
	for {
		sum, settled := 0.0, false
		for i, x := range got {
			if x == open {
				sum += weights[i]
			}
		}
		level := capacity / sum
		for i, want := range wants {
			if got[i] == open && want <= level*weights[i] {
				got[i], settled = want, true
				capacity = max(capacity-want, 0)
			}
		}
		if settled {
			continue
		}
		for i, x := range got {
			if x == open {
				got[i] = level * weights[i]
			}
		}
		return
	}
}
