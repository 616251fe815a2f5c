package autoscale

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"gnnsched/internal/each"
)

// Change is a change of one NodePool that a search tries.
type Change struct {
	Name  string // in a few words
	Do    string // what a person changes, with amounts
	Pools []byte // the file of NodePools with the change
}

// mostChanges bounds how many changes are tried.
const mostChanges = 20

// Changes returns the changes of single NodePools that a search tries, in the order of the pools: other limits, the pool left out, and
// spot machines or those on demand alone. Notes say what is not varied, and why.
func Changes(types, pools []byte) (out []Change, notes []string, err error) {
	if len(bytes.TrimSpace(pools)) == 0 {
		return nil, []string{"without a file of NodePools, only the autoscaler's own settings are varied"}, nil
	}
	var v varied
	if v.catalog, err = Read(types, pools); err != nil {
		return nil, nil, err
	}
	if v.objects, err = objects(pools); err != nil {
		return nil, nil, err
	}
	for i := range v.catalog.Pools {
		v.vary(&v.catalog.Pools[i])
	}
	if n := len(v.changes); n > mostChanges {
		v.changes = v.changes[:mostChanges]
		v.note("of %d changes of NodePools %d are tried, the first of the pools with the highest weight", n, mostChanges)
	}
	return v.changes, v.notes, nil
}

// varied collects the changes of pools.
type varied struct {
	catalog *Catalog
	objects []json.RawMessage // of the file of pools
	changes []Change
	notes   []string
}

func (v *varied) note(format string, a ...any) { v.notes = append(v.notes, fmt.Sprintf(format, a...)) }

// vary adds the changes of a pool.
func (v *varied) vary(p *Pool) {
	if p.closed() {
		v.note("NodePool %s starts no machine, because of its limits %s: it is left as it is", p.Name, listed(p.Limits))
		return
	}
	v.limits(p)
	if len(v.catalog.Pools) > 1 {
		v.add(p, "without "+p.Name, "leave out NodePool "+p.Name+", whose present nodes stay", nil)
	}
	kinds := map[bool]bool{} // whether they are spot machines
	for _, l := range v.catalog.Offers(p) {
		kinds[l.Spot] = true
	}
	if len(kinds) > 1 {
		for _, kind := range []string{onDemand, spot} {
			v.add(p, p.Name+" "+kind+" only", fmt.Sprintf("let NodePool %s start %s machines only", p.Name, kind), p.startingOnly(kind))
		}
	}
}

// limits adds half of the pool's limits, double of them, and none.
func (v *varied) limits(p *Pool) {
	if len(p.Limits) == 0 {
		v.note("NodePool %s has no limits that could be varied", p.Name)
		return
	}
	now := listed(p.Limits)
	for _, halves := range []int64{1, 4} {
		name, limits := fmt.Sprintf("%s limits x%g", p.Name, float64(halves)/2), scaled(p.Limits, halves)
		if listed(limits) == now {
			v.note("%s are not tried, because %s stays the same", name, now)
			continue
		}
		v.add(p, name, fmt.Sprintf("set the limits of NodePool %s to %s (now %s)", p.Name, listed(limits), now), p.limitedTo(limits))
	}
	most := v1.ResourceList{nodesLimit: *resource.NewQuantity(MostNodes, resource.DecimalSI)}
	v.add(p, p.Name+" without limits",
		fmt.Sprintf("remove the limits of NodePool %s (now %s); tried with at most %d machines", p.Name, now, MostNodes), p.limitedTo(most))
}

// add adds a change, after which the pool has another manifest; without one, it is left out.
func (v *varied) add(p *Pool, name, do string, manifest []byte) {
	var kept [][]byte
	for _, o := range v.objects {
		if !bytes.Equal(o, p.Manifest) {
			kept = append(kept, o)
		} else if manifest != nil {
			kept = append(kept, manifest)
		}
	}
	v.changes = append(v.changes, Change{name, do, bytes.Join(kept, []byte("\n---\n"))})
}

// closed reports whether a limit of 0 keeps the pool from starting any machine.
func (p *Pool) closed() bool {
	return slices.ContainsFunc([]v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory, nodesLimit}, func(name v1.ResourceName) bool {
		q, limited := p.Limits[name]
		return limited && q.IsZero()
	})
}

// limitedTo returns the pool's manifest with other limits.
func (p *Pool) limitedTo(limits v1.ResourceList) []byte {
	amounts := map[string]any{}
	for name, q := range limits {
		amounts[string(name)] = q.String()
	}
	return with(p.object(), amounts, "spec", "limits")
}

// startingOnly returns the pool's manifest with machines of one capacity type.
func (p *Pool) startingOnly(kind string) []byte {
	object, field := p.object(), []string{"spec", "template", "spec", "requirements"}
	given, _, _ := unstructured.NestedSlice(object, field...)
	others := slices.DeleteFunc(given, func(r any) bool { return r.(map[string]any)["key"] == capacityLabel })
	only := map[string]any{"key": capacityLabel, "operator": string(v1.NodeSelectorOpIn), "values": []any{kind}}
	return with(object, append(others, only), field...)
}

// object returns the pool's manifest, which was read before.
func (p *Pool) object() (out map[string]any) {
	_ = json.Unmarshal(p.Manifest, &out)
	return out
}

// with returns an object in JSON with another value of a field.
func with(object map[string]any, value any, field ...string) []byte {
	_ = unstructured.SetNestedField(object, value, field...)
	out, _ := json.Marshal(object)
	return out
}

// scaled returns limits times so many halves: cores to the thousandth, others rounded up.
func scaled(limits v1.ResourceList, halves int64) v1.ResourceList {
	out := v1.ResourceList{}
	for name, q := range limits {
		if name == v1.ResourceCPU {
			out[name] = *resource.NewMilliQuantity(q.MilliValue()*halves/2, q.Format)
		} else {
			out[name] = *resource.NewQuantity((q.Value()*halves+1)/2, q.Format)
		}
	}
	return out
}

// listed writes limits in the order of their names.
func listed(limits v1.ResourceList) string {
	names := slices.Sorted(maps.Keys(limits))
	return strings.Join(each.Map(names, func(name v1.ResourceName) string {
		q := limits[name]
		return fmt.Sprintf("%s %s", name, &q)
	}), ", ")
}
