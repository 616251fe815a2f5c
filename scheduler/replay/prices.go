package replay

import (
	"cmp"
	"errors"
	"fmt"
	"math"

	"sigs.k8s.io/yaml"

	"gnnsched/workload/record"
)

// Prices holds hourly prices of nodes, in any currency.
type Prices struct {
	// Label is the label of nodes whose value Nodes prices; by default node.kubernetes.io/instance-type.
	Label string             `json:"label,omitempty"`
	Nodes map[string]float64 `json:"nodes,omitempty"` // by the label's value
	// Other prices nodes that are not in Nodes, by their capacity.
	Other Amounts `json:"other,omitempty"`
}

// Amounts are hourly prices of the parts of a node's capacity.
type Amounts struct {
	Core float64 `json:"core,omitempty"`
	GiB  float64 `json:"gib,omitempty"` // of memory
	GPU  float64 `json:"gpu,omitempty"`
}

// ParsePrices reads prices from YAML. Unknown fields are errors.
func ParsePrices(text []byte) (*Prices, error) {
	p := &Prices{}
	if err := yaml.UnmarshalStrict(text, p); err != nil {
		return nil, err
	}
	for name, x := range p.Nodes {
		if !price(x) {
			return nil, fmt.Errorf("nodes: %s: the price is %v, must be 0 or more", name, x)
		}
	}
	if o := p.Other; !price(o.Core) || !price(o.GiB) || !price(o.GPU) {
		return nil, errors.New("other: a price is below 0")
	}
	if len(p.Nodes) == 0 && p.Other == (Amounts{}) {
		return nil, errors.New("there are no prices: give nodes, other, or both")
	}
	p.Label = cmp.Or(p.Label, "node.kubernetes.io/instance-type")
	return p, nil
}

func price(x float64) bool { return x >= 0 && !math.IsInf(x, 0) }

// Of returns the hourly price of a node; known is false if it has no price.
func (p *Prices) Of(n *record.Node) (perHour float64, known bool) {
	if p == nil {
		return 0, true
	}
	if x, ok := p.Nodes[record.Labels(n.Labels)[p.Label]]; ok {
		return x, true
	}
	if p.Other == (Amounts{}) {
		return 0, false
	}
	return p.Other.Core*float64(n.MilliCPU)/1000 + p.Other.GiB*float64(n.Memory)/(1<<30) + p.Other.GPU*float64(n.GPU), true
}
