package preference

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"gnnsched/internal/choice"
	"gnnsched/internal/cluster"
)

// Weights are the weights of the plugins that score by preferences. A plugin with weight 0 does not score.
type Weights struct {
	Spread int64 // PodTopologySpread
	Taints int64 // TaintToleration
}

// Upstream has the weights of kube-scheduler's default profile in Kubernetes 1.36 and 1.37.
var Upstream = Weights{Spread: 2, Taints: 3}

// maxSkew of upstream's two default constraints.
const (
	nodeSkew = 3
	zoneSkew = 5
)

// maxNodeScore is the highest score of a plugin.
const maxNodeScore = 100

// Scorer scores the nodes of a cluster by preferences as upstream's plugins do. Labels, taints and
// the order of the nodes must not change. It is not safe for concurrent use.
type Scorer struct {
	nodes   []*cluster.Node
	zone    []int32 // by row: the number of its zone, 0 for a node without one
	spreads bool    // upstream's default constraints apply
	taints  bool    // some node has a taint PreferNoSchedule

	onNode []int32 // by row: pods of the owner; all 0 between calls
	onZone []int32 // by zone: the same
	seen   []bool  // by zone: has a candidate; all false between calls

	zoneScore []float64 // by zone: the second term of addSpread; reused
	without   []int64   // by zone: the score of a node without pods of the owner; reused
	raw       []int64   // by candidate: one plugin's scores before normalization; reused
	sums      []int64   // by candidate; reused
}

// NewScorer returns a scorer for a mode other than Blend.
func NewScorer(m Mode, nodes []*cluster.Node) *Scorer {
	s := &Scorer{nodes: nodes, zone: make([]int32, len(nodes)), spreads: m == First}
	numbers := map[string]int32{"": 0}
	for i, n := range nodes {
		number, known := numbers[n.Zone]
		if !known {
			number = int32(len(numbers))
			numbers[n.Zone] = number
		}
		s.zone[i] = number
		s.taints = s.taints || m != Off && n.Avoids(nil) > 0
	}
	s.onNode, s.raw, s.sums = make([]int32, len(nodes)), make([]int64, len(nodes)), make([]int64, len(nodes))
	zones := len(numbers)
	s.onZone, s.seen, s.zoneScore, s.without = make([]int32, zones), make([]bool, zones), make([]float64, zones), make([]int64, zones)
	return s
}

// Spreads reports whether pods with the same owner are spread.
func (s *Scorer) Spreads() bool { return s.spreads }

// Rates reports whether pod may prefer some nodes to others.
func (s *Scorer) Rates(pod *cluster.Pod) bool { return s.taints || s.spreads && pod.Owner != "" }

// Sums is SumsBy with upstream's weights.
func (s *Scorer) Sums(pod *cluster.Pod, candidates, running []int32) []int64 {
	return s.SumsBy(Upstream, pod, candidates, running)
}

// SumsBy returns the weighted sum of the preference scores of each candidate for pod, or nil if it is
// the same for all. running are the rows of the nodes with pods of the same owner, a row for each
// pod. The result is valid until the next call.
func (s *Scorer) SumsBy(w Weights, pod *cluster.Pod, candidates, running []int32) []int64 {
	if len(candidates) < 2 || !s.Rates(pod) {
		return nil
	}
	s.sums = s.sums[:len(candidates)]
	clear(s.sums)
	differ := s.taints && w.Taints > 0 && s.addTaints(w.Taints, pod, candidates)
	if s.spreads && w.Spread > 0 && pod.Owner != "" && s.addSpread(w.Spread, candidates, running) {
		differ = true
	}
	if !differ {
		return nil
	}
	return s.sums
}

// addTaints adds the scores of TaintToleration: the fewer taints PreferNoSchedule the pod does not
// tolerate, the better, relative to the candidate with the most. It reports whether they differ.
func (s *Scorer) addTaints(weight int64, pod *cluster.Pod, candidates []int32) (differ bool) {
	raw := s.raw[:len(candidates)]
	var most int64
	for i, row := range candidates {
		raw[i] = int64(s.nodes[row].Avoids(pod.Tolerations))
		most = max(most, raw[i])
	}
	for i, count := range raw {
		differ = differ || count != raw[0]
		if most > 0 {
			count = maxNodeScore * count / most
		}
		s.sums[i] += weight * (maxNodeScore - count)
	}
	return differ
}

// addSpread adds the scores of PodTopologySpread with the default constraints, and reports whether
// they differ. The score of a node before normalization is, rounded,
//
//	Σ count · ln(size + 2) + maxSkew - 1
//
// over the constraints for nodes and for zones: count is the number of pods of the owner there, and
// size the number of candidates or of their zones. A node without a zone has no second term.
func (s *Scorer) addSpread(weight int64, candidates, running []int32) (differ bool) {
	for _, row := range running {
		s.onNode[row]++
		s.onZone[s.zone[row]]++
	}
	s.scoreZones(candidates)
	nodeWeight := math.Log(float64(len(candidates) + 2))
	raw := s.raw[:len(candidates)]
	low, high := int64(math.MaxInt64), int64(0)
	for i, row := range candidates {
		z := s.zone[row]
		v := s.without[z]
		if count := s.onNode[row]; count > 0 {
			v = round(count, nodeWeight, s.zoneScore[z])
		}
		raw[i] = v
		low, high = min(low, v), max(high, v)
	}
	for _, row := range running {
		s.onNode[row], s.onZone[s.zone[row]] = 0, 0
	}
	if low == high {
		return false // equal values make no difference
	}
	last, score := int64(-1), int64(0)
	for i, v := range raw {
		if v != last { // few values are different, and a division takes time
			last, score = v, weight*(maxNodeScore*(high+low-v)/high)
		}
		s.sums[i] += score
	}
	return true
}

// scoreZones computes the second term of each zone, and the whole score of a node in it without pods
// of the owner.
func (s *Scorer) scoreZones(candidates []int32) {
	weight := math.Log(float64(s.zonesOf(candidates) + 2))
	for z, count := range s.onZone {
		if z > 0 {
			s.zoneScore[z] = float64(count)*weight + (zoneSkew - 1)
		}
		s.without[z] = round(0, 0, s.zoneScore[z])
	}
}

// round returns the score of a node with count pods of the owner in a zone with a score.
func round(count int32, weight, zone float64) int64 {
	return int64(math.Round(float64(count)*weight + (nodeSkew - 1) + zone))
}

// zonesOf returns the number of different zones of the candidates. No zone counts as one.
func (s *Scorer) zonesOf(candidates []int32) (count int) {
	if len(s.seen) == 1 {
		return 1
	}
	for _, row := range candidates {
		if z := s.zone[row]; !s.seen[z] {
			s.seen[z] = true
			if count++; count == len(s.seen) {
				break
			}
		}
	}
	clear(s.seen)
	return count
}

// Mode says how the preferences of manifests count. Preferences are preferred node and pod
// (anti-)affinity, PreferNoSchedule taints, soft topology spread and image locality.
type Mode string

const (
	// First lets the policy choose only among the nodes that upstream's preference plugins like
	// best. Upstream's default topology spread, which nobody declared, is weighed against the
	// policy's scores; see Weigh.
	First Mode = "first"
	// Declared is First without what nobody declared: upstream's default topology spread and image
	// locality. It is for clusters that are to be packed.
	Declared Mode = "declared"
	// Blend leaves preferences to upstream's score plugins that a scheduler profile enables beside
	// LearnedScore; kube-scheduler adds up the scores.
	Blend Mode = "blend"
	// Off ignores preferences.
	Off Mode = "off"
)

// Modes are the valid values, the default first.
var Modes = []Mode{First, Declared, Blend, Off}

// Validate returns an error unless m is one of Modes.
func (m Mode) Validate() error { return m.OneOf(Modes) }

// OneOf returns an error unless m is one of modes.
func (m Mode) OneOf(modes []Mode) error {
	if slices.Contains(modes, m) {
		return nil
	}
	return fmt.Errorf("preferences is %q%s", m, choice.Among(string(m), choice.Names(modes, choice.Text)))
}

// UnmarshalJSON implements json.Unmarshaler. It takes false for Off, because YAML reads an unquoted
// off as a boolean.
func (m *Mode) UnmarshalJSON(b []byte) error {
	if string(b) == "false" {
		*m = Off
		return nil
	}
	return json.Unmarshal(b, (*string)(m))
}

// policyRange is how far apart a policy's best and worst node are in points of default spreading, of which there are 100. Where an owner
// has few replicas, a node without one is better than a node with one, and where it has many, their number hardly counts.
const policyRange = 33

// Weigh adds upstream's scores of default topology spread, in 0 to 100, to a policy's scores of the nodes with the given indices, or of
// all nodes if left is nil. These are put on a scale of 0 to policyRange first; a node whose score is -Inf is none that the policy takes.
func Weigh(scores []float32, left []int32, spread []int64) {
	at := func(k int) int { return k }
	n := len(scores)
	if left != nil {
		at, n = func(k int) int { return int(left[k]) }, len(left)
	}
	never := float32(math.Inf(-1))
	low, high := float32(math.Inf(1)), never
	for k := range n {
		if v := scores[at(k)]; v != never {
			low, high = min(low, v), max(high, v)
		}
	}
	for k := range n {
		i, v := at(k), 0.0
		if scores[i] == never {
			continue
		}
		if high > low {
			v = (float64(scores[i]) - float64(low)) / (float64(high) - float64(low)) * policyRange
		}
		scores[i] = float32(v + float64(spread[i]))
	}
}

// Best appends to rows the indices of the highest sums, in ascending order. Of all nodes these are
// the ones that a policy may choose with First and Declared. There is no tolerance: the sums are
// integers that already round off what does not matter, equal cases get equal sums, and on a large
// cluster one point may be the only sign that another replica is on the node.
func Best(sums []int64, rows []int32) []int32 {
	if len(sums) == 0 {
		return rows
	}
	best := slices.Max(sums)
	for i, v := range sums {
		if v == best {
			rows = append(rows, int32(i))
		}
	}
	return rows
}
