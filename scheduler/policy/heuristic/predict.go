package heuristic

import (
	"math"

	"gnnsched/internal/cluster"
)

const (
	maxScore = 100
	percent  = 100

	// filtered is subtracted from the scores of nodes that the original would filter.
	filtered = 1000

	// lag is how long before a measurement, in seconds, a pod may have been bound and still be missing in it.
	lag = 60
)

// measured returns the measured use of a node, without the pods that were bound since, or what is requested
// if the dimension was not measured.
func measured(n *cluster.Node, d cluster.Dimension) (s cluster.Statistics, known bool) {
	if u := n.Usage; u != nil && u.Known[d] {
		return u.Measured[d], true
	}
	return n.Used(d), false
}

// unseen calls each for the pods that were bound since the measurement, or so shortly before that it lacks them.
func unseen(n *cluster.Node, each func(*cluster.RecentPod)) {
	if n.Usage == nil {
		return
	}
	for i := range n.Usage.Recent {
		if p := &n.Usage.Recent[i]; p.At > n.Usage.At-lag {
			each(p)
		}
	}
}

// predictCPU returns Trimaran's prediction of a pod's CPU in thousandths of a core: its limit, else 1.5
// times its request, else one core.
func predictCPU(requests, limits cluster.Resources) float64 {
	switch {
	case limits.MilliCPU > 0:
		return float64(limits.MilliCPU)
	case requests.MilliCPU > 0:
		return math.Round(1.5 * float64(requests.MilliCPU))
	}
	return 1000
}

// cpuUsed returns the CPU that Trimaran expects to be in use before a placement: the measured mean and the
// predictions for the pods that it lacks.
func cpuUsed(n *cluster.Node) float64 {
	s, known := measured(n, cluster.UsedCPU)
	if known {
		unseen(n, func(p *cluster.RecentPod) { s.Mean += predictCPU(p.Requests, p.Limits) })
	}
	return s.Mean
}

// usageScore scores one node for a pod at a time.
type usageScore func(n *cluster.Node, pod *cluster.Pod, now float64) float64

func (f usageScore) all(s *cluster.Snapshot, pod *cluster.Pod, candidates []int32, scores []float32) {
	for i, v := range candidates {
		scores[i] = float32(f(s.Nodes[v], pod, s.Now))
	}
}
