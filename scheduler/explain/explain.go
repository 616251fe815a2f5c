// Package explain explains why a pod got its node: it compares the chosen node of a recorded decision with another one, feature by
// feature, and looks for the smallest change that would have turned the choice.
package explain

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"gnnsched/gnn/infer"
	"gnnsched/scheduler/decision"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/policy/linear"
)

// comparison explains why the score of one node is higher than another's.
type comparison struct {
	chosen, other decision.Candidate
	// parts add up to the difference of the scores. Linear policies: exactly, except for rounding. Networks: as
	// infer.Network.Attribute.
	parts []infer.Attribution // the largest first
	flip  *flip               // nil if none was found
	// byRule is true if a network with a rule changed nothing of that rule.
	byRule bool
	// changes is true if the values of features are the placement's changes of them.
	changes bool
}

// flip is a change of one feature of the other node that makes its score as high as the chosen one's.
type flip struct {
	name     string
	from, to float64
}

// errNoReading is the error of a comparison with nodes for which the record has only the scores.
var errNoReading = errors.New("the record does not say what the policy read of both nodes")

// compare compares two candidates of a record. net is the network with the record's fingerprint; nil if it is not at hand.
func compare(chosen, other decision.Candidate, net *infer.Network) (*comparison, error) {
	c := &comparison{chosen: chosen, other: other}
	if chosen.Read == nil || other.Read == nil || chosen.Read.Kind != other.Read.Kind {
		return nil, errNoReading
	}
	var err error
	switch chosen.Read.Kind {
	case policy.LinearReading:
		err = c.linear()
	case policy.NetworkReading:
		if net == nil || net.ValuesNodes() {
			return nil, errors.New("the network with the record's fingerprint is not at hand; name its file with --checkpoint")
		}
		err = c.network(net)
	case policy.ValueReading:
		err = c.value(net)
	default:
		err = fmt.Errorf("readings of kind %.20q are not known", chosen.Read.Kind)
	}
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(c.parts, func(a, b infer.Attribution) int { return cmp.Compare(math.Abs(b.Part), math.Abs(a.Part)) })
	return c, nil
}

// margin returns the chosen node's score minus the other's.
func (c *comparison) margin() float64 { return float64(c.chosen.Score) - float64(c.other.Score) }

// agrees checks that a score computed from a reading is the recorded one.
func agrees(c decision.Candidate, score float64) error {
	if math.Abs(score-float64(c.Score)) > 1e-3*(1+math.Abs(float64(c.Score))) {
		return fmt.Errorf("what was read of %s gives the score %.4g, but %.4g is recorded: the weights are others, or the policy explored",
			c.Node, score, c.Score)
	}
	return nil
}

// costName names the logarithm of what a placement costs pods to come, which follows the features of linear in a reading of price.
const costName = "cost"

// linear divides the difference by the features of a linear policy.
func (c *comparison) linear() error {
	a, b := c.chosen.Read, c.other.Read
	names := linear.Features
	if len(a.Features) == len(names)+1 {
		names = append(slices.Clone(names), costName)
	}
	n := len(names)
	if len(a.Features) != n || len(b.Features) != n || len(a.Weights) != n {
		return fmt.Errorf("the record has other features than this version's %d", n)
	}
	var ours, theirs float64
	for j, w := range a.Weights {
		x, y := float64(a.Features[j]), float64(b.Features[j])
		ours, theirs = ours+float64(w)*x, theirs+float64(w)*y
		c.parts = append(c.parts, infer.Attribution{Name: names[j], From: y, To: x, Part: float64(w) * (x - y)})
		if j >= len(linear.Features) {
			continue // its cost is no feature that could differ by itself
		}
		if to, can := linear.Reached(j, y, y+c.margin()/float64(w)); w != 0 && can {
			c.consider(flip{names[j], y, to})
		}
	}
	return errors.Join(agrees(c.chosen, ours), agrees(c.other, theirs))
}

// consider keeps a flip if it changes its feature less than the present one.
func (c *comparison) consider(f flip) {
	if c.flip == nil || math.Abs(f.to-f.from) < math.Abs(c.flip.to-c.flip.from) {
		c.flip = &f
	}
}

// network divides the difference by the features that a network read.
func (c *comparison) network(net *infer.Network) (err error) {
	for _, candidate := range []decision.Candidate{c.chosen, c.other} {
		score, err := net.ScoreOf(candidate.Read.Features)
		if err != nil {
			return err
		}
		if err := agrees(candidate, score); err != nil {
			return err
		}
	}
	if c.parts, err = net.Attribute(c.other.Read.Features, c.chosen.Read.Features); err != nil {
		return err
	}
	c.byRule = net.ByRuleAlone(c.chosen.Read.Features)
	goal, err := net.ScoreOf(c.chosen.Read.Features)
	if err != nil {
		return err
	}
	domains := net.Domains()
	for j, name := range net.Names() {
		if d, found := turn(net, c.other.Read.Features, j, goal, domains[j].Has); found {
			from := float64(c.other.Read.Features[j])
			c.consider(flip{name, from, from + d})
		}
	}
	return nil
}

// farthest is the largest change of a feature that turn tries. Features are of order one, and bounded by 4.
const farthest = 4

// turn returns the smallest change of feature j, on a grid of steps that grow by a tenth and to 0 and 1, with which a reading's score
// reaches the goal. possible reports whether the feature can have the new value.
func turn(net *infer.Network, reading []float32, j int, goal float64, possible func(float64) bool) (change float64, found bool) {
	x, from := slices.Clone(reading), float64(reading[j])
	steps := []float64{math.Abs(from), math.Abs(1 - from)}
	for d := 0.001; d <= farthest; d *= 1.1 {
		steps = append(steps, d)
	}
	slices.Sort(steps)
	for _, d := range steps {
		for _, signed := range []float64{d, -d} {
			if d == 0 || !possible(from+signed) {
				continue
			}
			x[j] = float32(from + signed)
			if score, err := net.ScoreOf(x); err == nil && score >= goal {
				return signed, true
			}
		}
	}
	return 0, false
}

// value compares a value network's values, and divides the difference by features if the network is at hand and the record has its
// features.
func (c *comparison) value(net *infer.Network) error {
	for _, candidate := range []decision.Candidate{c.chosen, c.other} {
		x := candidate.Read.Features
		if len(x) < 2 {
			return errors.New("the record has no values before and after the placement")
		}
		// A network for mixed clusters moves the scores of nodes that it passes over.
		if err := agrees(candidate, float64(x[0])-float64(x[1])); err != nil {
			return err
		}
	}
	a, b := c.chosen.Read.Features, c.other.Read.Features
	c.consider(flip{"v(after)", float64(b[1]), float64(b[1]) - c.margin()})
	if net != nil && net.ValuesNodes() && len(a) > 2 && len(b) > 2 {
		return c.steps(net)
	}
	c.parts = []infer.Attribution{
		{Name: "v(before)", From: float64(b[0]), To: float64(a[0]), Part: float64(a[0]) - float64(b[0])},
		{Name: "v(after)", From: float64(b[1]), To: float64(a[1]), Part: float64(b[1]) - float64(a[1])},
	}
	return nil
}

// reserveAndPower is the part of a value that does not come from the network.
const reserveAndPower = "reserve and power"

// steps divides the difference by the placement's changes on the two nodes. A feature's values are its changes. Each changed device of
// either node has a part of its own.
func (c *comparison) steps(net *infer.Network) error {
	by := map[string]*infer.Attribution{}
	var order []string
	add := func(name string, change, part float64, chosen bool) {
		p := by[name]
		if p == nil {
			p = &infer.Attribution{Name: name}
			by[name], order = p, append(order, name)
		}
		if chosen {
			p.To, p.Part = change, p.Part+part
		} else {
			p.From, p.Part = change, p.Part-part
		}
	}
	for _, candidate := range []decision.Candidate{c.chosen, c.other} {
		x, chosen := candidate.Read.Features, candidate.Node == c.chosen.Node
		parts, err := net.AttributeStep(x[2:])
		if err != nil {
			return err
		}
		score, err := net.StepScore(x[2:])
		if err != nil {
			return err
		}
		for _, p := range parts {
			name := p.Name
			if strings.HasPrefix(name, "device ") {
				if p.From == p.To {
					continue
				}
				name += " of " + candidate.Node
			}
			add(name, p.To-p.From, p.Part, chosen)
		}
		if rest := float64(x[0]) - float64(x[1]) - score; math.Abs(rest) > 1e-4*(1+math.Abs(score)) { // else it is rounding
			add(reserveAndPower, 0, rest, chosen)
		}
	}
	for _, name := range order {
		c.parts = append(c.parts, *by[name])
	}
	c.changes = true
	return nil
}
