// Package wish turns objectives into what networks with the feature set wishes read of them, and back.
//
// Such a network serves every objective of the terms that its checkpoint names (checkpoint.Wish). It reads the share of
// each term: the term's weight divided by its unit (feature.WishTerm), as a part of the sum. So balance=1,energy=2.5
// stands for halves.
package wish

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/feature"
	"gnnsched/internal/choice"
	"gnnsched/scheduler/objective"
)

// indexOf returns the index of a term among feature.WishTerms, -1 for another.
func indexOf(term string) int {
	return slices.IndexFunc(feature.WishTerms[:], func(t feature.WishTerm) bool { return t.Name == term })
}

// Of returns the shares of an objective. A term that networks cannot read is an error.
func Of(m objective.Mix) (w feature.Wishes, err error) {
	var parts [len(feature.WishTerms)]float64
	var most, sum float64
	for _, t := range m {
		i := indexOf(t.Term.Name())
		if i < 0 {
			return w, fmt.Errorf("networks cannot read the term %s%s", t.Term.Name(), choice.Among(t.Term.Name(), Terms()))
		}
		parts[i] = t.Weight / feature.WishTerms[i].Unit
		most = max(most, parts[i])
	}
	if !(most > 0) || math.IsInf(most, 1) { // a weight at the end of what a number can be
		return w, fmt.Errorf("the weights of %s are too small or too large", m.Name())
	}
	for i := range parts {
		parts[i] /= most // so that the sum is finite
		sum += parts[i]
	}
	for i, p := range parts {
		w[i] = float32(p / sum)
	}
	return w, nil
}

// Mix returns an objective with the given shares: that of a single term has the weight Unit.
func Mix(w feature.Wishes) (m objective.Mix) {
	for i, share := range w {
		if share <= 0 {
			continue
		}
		t := feature.WishTerms[i]
		at := slices.IndexFunc(objective.Terms, func(o objective.Term) bool { return o.Name() == t.Name })
		m = append(m, objective.Weighted{Term: objective.Terms[at], Weight: float64(share) * t.Unit})
	}
	return m
}

// near is by how much the shares of equal objectives may differ: they are rounded to float32.
const near = 1e-4

// Near reports whether two objectives have the same shares, but for rounding.
func Near(a, b feature.Wishes) bool {
	for i := range a {
		if d := a[i] - b[i]; d > near || d < -near {
			return false
		}
	}
	return true
}

// Terms returns the names of the terms that networks can read.
func Terms() []string {
	return choice.Names(feature.WishTerms[:], func(t feature.WishTerm) string { return t.Name })
}

// corners is how often Draw draws a single term.
const corners = 0.4

// drawStream separates the drawn objectives from all else that is drawn from an episode's seed.
const drawStream = 0x77697368

// Draw draws the objective of an episode. Two in five are a single term; the others have shares that are uniform on the
// simplex of the terms (the Dirichlet distribution with the parameters 1). It panics for a term that is not known.
func Draw(seed uint64, terms []string) (w feature.Wishes) {
	r := rand.New(rand.NewPCG(seed, drawStream))
	if r.Float64() < corners {
		w[indexOf(terms[r.IntN(len(terms))])] = 1
		return w
	}
	parts, sum := make([]float64, len(terms)), 0.0
	for i := range parts {
		parts[i] = r.ExpFloat64()
		sum += parts[i]
	}
	for i, t := range terms {
		w[indexOf(t)] = float32(parts[i] / sum)
	}
	return w
}

// Many reports whether a network that knows these terms serves more than one objective.
func Many(known []checkpoint.Wish) bool {
	return slices.ContainsFunc(known, func(k checkpoint.Wish) bool { return k.Most > k.Least })
}

// slack is by how much a share may miss its range: shares are rounded to float32.
const slack = 1e-6

// Parse reads an objective for a network that knows the given terms. The error lists them.
func Parse(text string, known []checkpoint.Wish) (w feature.Wishes, err error) {
	if !Many(known) {
		return w, fmt.Errorf("objective %q: the network was trained for one objective and does not read another; "+
			"use a checkpoint that lists wishes in its manifest", text)
	}
	m, err := objective.Parse(text)
	if err == nil {
		w, err = Of(m)
	}
	if err != nil {
		return w, fmt.Errorf("%w; the network knows %s", err, names(known))
	}
	for i, share := range w {
		at := slices.IndexFunc(known, func(k checkpoint.Wish) bool { return k.Term == feature.WishTerms[i].Name })
		switch {
		case at < 0 && !(share <= 0):
			return w, fmt.Errorf("objective %q: the network does not know %s; it knows %s", text, feature.WishTerms[i].Name, names(known))
		case at >= 0 && !(float64(share) >= known[at].Least-slack && float64(share) <= known[at].Most+slack):
			return w, fmt.Errorf("objective %q: the share of %s is %.3g, and the network was trained on %g to %g", text, known[at].Term, share,
				known[at].Least, known[at].Most)
		}
	}
	return w, nil
}

// Serves returns an error unless the network of a checkpoint serves an objective.
func Serves(c *checkpoint.Checkpoint, text string) error {
	_, err := Parse(text, c.Manifest.Wishes)
	return err
}

// names lists the terms that a network knows.
func names(known []checkpoint.Wish) string {
	out := make([]string, len(known))
	for i, k := range known {
		out[i] = k.Term
	}
	return strings.Join(out, ", ")
}
