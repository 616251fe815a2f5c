package checkpoint

import (
	"fmt"
	"math"
	"slices"

	"gnnsched/gnn/feature"
)

// Wish is a term of the objective that a network with the feature set wishes was trained on.
type Wish struct {
	Term  string  `json:"term"`
	Share float64 `json:"share"` // in the objective that counts where no other is given; see feature.Wishes
	Least float64 `json:"least"` // smallest share in training
	Most  float64 `json:"most"`  // largest share in training
}

// wishes checks the terms, and returns the share of each.
func (m *Manifest) wishes() (w feature.Wishes, err error) {
	if len(m.Wishes) == 0 {
		return w, nil
	}
	if layout, err := m.Architecture.Layout(); m.Architecture.Graph != ClusterGraph || err != nil || !layout.Wishes {
		return w, fmt.Errorf("%w: it names wishes, but its features do not depend on the objective", ErrSchema)
	}
	var sum float64
	var seen [len(feature.WishTerms)]bool
	for _, k := range m.Wishes {
		i := slices.IndexFunc(feature.WishTerms[:], func(t feature.WishTerm) bool { return t.Name == k.Term })
		if i < 0 || seen[i] {
			return w, fmt.Errorf("%w: the wish %q is not known, or named twice", ErrSchema, k.Term)
		}
		if !(0 <= k.Least && k.Least <= k.Share && k.Share <= k.Most && k.Most <= 1) {
			return w, fmt.Errorf("%w: wish %s: a share of %v is not in %v to %v", ErrSchema, k.Term, k.Share, k.Least, k.Most)
		}
		w[i], seen[i] = float32(k.Share), true
		sum += k.Share
	}
	if math.Abs(sum-1) > 1e-6 {
		return w, fmt.Errorf("%w: the shares of its wishes add up to %v, not to 1", ErrSchema, sum)
	}
	return w, nil
}

// Wishes returns the objective that a network reads where no other is given. The checkpoint must be valid.
func (c *Checkpoint) Wishes() feature.Wishes {
	w, err := c.Manifest.wishes()
	if err != nil {
		panic(err)
	}
	return w
}
