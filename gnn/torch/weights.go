//go:build torch

package torch

import "gnnsched/gnn/checkpoint"

// load registers the parameters of a checkpoint, with its weights, and returns them by name.
func (p *Parameters) load(c *checkpoint.Checkpoint) (map[string]*Tensor, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	byName := map[string]*Tensor{}
	var arrays []Array
	for _, x := range c.Manifest.Architecture.Params() {
		byName[x.Name] = p.constant(x.Name, 0, x.Shape...)
		arrays = append(arrays, Array{Name: x.Name, Shape: x.Shape, Data: c.Weights[x.Name].Data})
	}
	if err := p.Import(arrays); err != nil {
		p.Drop()
		return nil, err
	}
	return byName, nil
}

// save returns the present weights.
func (p *Parameters) save(m checkpoint.Manifest) (*checkpoint.Checkpoint, error) {
	arrays, err := p.Export()
	if err != nil {
		return nil, err
	}
	c := &checkpoint.Checkpoint{Manifest: m, Weights: map[string]checkpoint.Tensor{}}
	for _, a := range arrays {
		c.Weights[a.Name] = checkpoint.Tensor{Shape: a.Shape, Data: a.Data}
	}
	return c, nil
}
