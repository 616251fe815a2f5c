package autoscale

import (
	"bytes"
	"cmp"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// typeFile is a type in a file: as the KWOK provider of Karpenter has it, with what only this program reads.
type typeFile struct {
	Name             string            `json:"name"`
	Offerings        []offeringFile    `json:"offerings"`
	Architecture     string            `json:"architecture,omitempty"`
	OperatingSystems []string          `json:"operatingSystems,omitempty"`
	Resources        v1.ResourceList   `json:"resources"`
	Overhead         v1.ResourceList   `json:"overhead,omitempty"` // what Kubernetes and the system keep
	Labels           map[string]string `json:"labels,omitempty"`
	Boot             metav1.Duration   `json:"boot,omitempty"`
	Interruptions    float64           `json:"interruptionsPerDay,omitempty"`
	Failures         float64           `json:"failures,omitempty"`
}

// offeringFile is an offering: by zone and spot, or by requirements as Karpenter has them.
type offeringFile struct {
	Price        *float64                     `json:"price"`
	Zone         string                       `json:"zone,omitempty"`
	Spot         bool                         `json:"spot,omitempty"`
	Available    *bool                        `json:"available,omitempty"`
	Requirements []v1.NodeSelectorRequirement `json:"requirements,omitempty"`
}

// poolFile has the fields of a NodePool that are read.
type poolFile struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        metav1.ObjectMeta `json:"metadata"`
	Spec            struct {
		Template struct {
			Metadata metav1.ObjectMeta `json:"metadata"`
			Spec     struct {
				Requirements  []requirementFile `json:"requirements"`
				Taints        []v1.Taint        `json:"taints"`
				StartupTaints []v1.Taint        `json:"startupTaints"`
				NodeClassRef  struct {
					Name string `json:"name"`
				} `json:"nodeClassRef"`
			} `json:"spec"`
		} `json:"template"`
		Limits   v1.ResourceList `json:"limits"`
		Weight   int32           `json:"weight"`
		Replicas *int64          `json:"replicas"`
	} `json:"spec"`
}

type requirementFile struct {
	v1.NodeSelectorRequirement `json:",inline"`
	MinValues                  *int `json:"minValues"`
}

// defaultBoot is how long a machine boots if its file does not say: Karpenter's users see about a minute.
const defaultBoot = time.Minute

// limits of what a file may hold.
const (
	mostTypes     = 5000
	mostOfferings = 200 // of a type
	mostPools     = 200
	// MostNodes is how many machines a pool without limits may have.
	MostNodes = 5000
)

// Read reads a catalog from a file of types, YAML or JSON, and a file of NodePools. Without pools, there is one that may start all types.
// An error names what is wrong; what is well-formed but not used is in the catalog's notes.
func Read(types, pools []byte) (*Catalog, error) {
	c := &Catalog{}
	if err := c.readTypes(types); err != nil {
		return nil, fmt.Errorf("types: %w", err)
	}
	if len(bytes.TrimSpace(pools)) == 0 {
		pools = []byte(onePool)
	}
	if err := c.readPools(pools); err != nil {
		return nil, fmt.Errorf("pools: %w", err)
	}
	for i := range c.Pools {
		if p := &c.Pools[i]; len(c.Offers(p)) == 0 {
			return nil, fmt.Errorf("pools: NodePool %s: none of the %d types satisfies its requirements", p.Name, len(c.Types))
		}
	}
	return c, nil
}

// onePool is the pool of a user who names none.
const onePool = `{apiVersion: karpenter.sh/v1, kind: NodePool, metadata: {name: default},
spec: {template: {spec: {requirements: [{key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}]}}}}`

// decode reads YAML, first strictly. A field that is not known is a note.
func (c *Catalog) decode(text []byte, into any) error {
	js, err := yaml.YAMLToJSON(text)
	if err != nil {
		return err
	}
	strict := json.NewDecoder(bytes.NewReader(js))
	strict.DisallowUnknownFields()
	if err := strict.Decode(into); err == nil || !strings.Contains(err.Error(), "unknown field") {
		return err
	} else if note := "not used: " + strings.TrimPrefix(err.Error(), "json: "); !slices.Contains(c.Notes, note) {
		c.Notes = append(c.Notes, note)
	}
	return json.Unmarshal(js, into)
}

func (c *Catalog) readTypes(text []byte) error {
	var all []typeFile
	if err := c.decode(text, &all); err != nil {
		return err
	}
	if len(all) == 0 || len(all) > mostTypes {
		return fmt.Errorf("there are %d, want 1 to %d", len(all), mostTypes)
	}
	names := map[string]bool{}
	foreign, sold := 0, 0 // types of which no machine can run Linux, and those that nobody offers now
	for i := range all {
		f := &all[i]
		if len(f.OperatingSystems) > 0 && !slices.Contains(f.OperatingSystems, "linux") {
			foreign++
			continue
		}
		if f.Name == "" || names[f.Name] {
			return fmt.Errorf("type %d has no name, or one that another has: %q", i+1, f.Name)
		}
		names[f.Name] = true
		t, err := f.read()
		if err != nil {
			return fmt.Errorf("%s: %w", f.Name, err)
		}
		if len(t.Offerings) == 0 {
			sold++
			continue
		}
		c.Types = append(c.Types, t)
	}
	if sold > 0 {
		c.Notes = append(c.Notes, fmt.Sprintf("not used: %d types without an offering that is available", sold))
	}
	if foreign > 0 {
		c.Notes = append(c.Notes, fmt.Sprintf("not used: %d types without Linux", foreign))
	}
	if len(c.Types) == 0 {
		return errors.New("none can be bought")
	}
	return nil
}

// read checks a type.
func (f *typeFile) read() (Type, error) {
	t := Type{
		Name: f.Name, Capacity: f.Resources, Labels: map[string]string{}, Boot: cmp.Or(f.Boot.Duration, defaultBoot),
		Interruptions: f.Interruptions / 24, Failures: f.Failures,
	}
	for key, value := range f.Labels {
		t.Labels[key] = value
	}
	t.Labels[v1.LabelOSStable] = "linux"
	if t.Labels[v1.LabelArchStable] = cmp.Or(f.Architecture, "amd64"); f.Architecture == "x86_64" {
		t.Labels[v1.LabelArchStable] = "amd64"
	}
	if err := f.offer(&t); err != nil {
		return t, err
	}
	if err := f.size(&t); err != nil {
		return t, err
	}
	switch {
	case t.Boot < 0:
		return t, fmt.Errorf("boot is %v", t.Boot)
	case !(t.Interruptions >= 0) || math.IsInf(t.Interruptions, 0):
		return t, fmt.Errorf("interruptionsPerDay is %v, must be 0 or more", f.Interruptions)
	case !(t.Failures >= 0 && t.Failures < 1):
		return t, fmt.Errorf("failures is %v, must be at least 0 and below 1", t.Failures)
	}
	return t, nil
}

// offer checks the offerings of a type.
func (f *typeFile) offer(t *Type) error {
	if len(f.Offerings) > mostOfferings {
		return fmt.Errorf("it has %d offerings, at most %d", len(f.Offerings), mostOfferings)
	}
	for _, o := range f.Offerings {
		switch {
		case o.Available != nil && !*o.Available:
			continue
		case o.Price == nil:
			return errors.New("an offering has no price")
		case !(*o.Price >= 0) || math.IsInf(*o.Price, 0):
			return fmt.Errorf("the price of an offering is %v, must be 0 or more", *o.Price)
		}
		x := Offering{Price: *o.Price, Zone: o.Zone, Spot: o.Spot}
		for _, r := range o.Requirements {
			switch {
			case len(r.Values) != 1:
			case r.Key == v1.LabelTopologyZone:
				x.Zone = r.Values[0]
			case r.Key == capacityLabel:
				x.Spot = r.Values[0] == spot
			}
		}
		t.Offerings = append(t.Offerings, x)
	}
	return nil
}

// size checks the capacity of a type.
func (f *typeFile) size(t *Type) error {
	if t.Capacity == nil {
		return errors.New("it has no resources")
	}
	if _, has := t.Capacity[v1.ResourcePods]; !has {
		t.Capacity[v1.ResourcePods] = *resource.NewQuantity(110, resource.DecimalSI)
	}
	overhead := f.Overhead
	if overhead == nil { // as the KWOK provider keeps
		overhead = v1.ResourceList{v1.ResourceCPU: resource.MustParse("100m"), v1.ResourceMemory: resource.MustParse("10Mi")}
	}
	t.Allocatable = t.Capacity.DeepCopy()
	for name, q := range overhead {
		left := t.Allocatable[name]
		left.Sub(q)
		t.Allocatable[name] = left
	}
	for _, name := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory} {
		if q := t.Allocatable[name]; q.Sign() <= 0 {
			return fmt.Errorf("its %s, less overhead, is %v", name, &q)
		}
	}
	return nil
}

// objects returns the objects of a file of pools and classes in JSON, those of lists one by one.
func objects(text []byte) (out []json.RawMessage, err error) {
	for doc := range bytes.SplitSeq(append([]byte("\n"), text...), []byte("\n---")) {
		js, err := yaml.YAMLToJSON(doc)
		if err != nil {
			return nil, err
		}
		var items struct{ Items []json.RawMessage }
		if json.Unmarshal(js, &items) == nil && len(items.Items) > 0 {
			out = append(out, items.Items...)
		} else if string(js) != "null" {
			out = append(out, js)
		}
	}
	return out, nil
}

func (c *Catalog) readPools(text []byte) error {
	all, err := objects(text)
	if err != nil {
		return err
	}
	others, classes := map[string]int{}, map[string]class{}
	for _, one := range all {
		if err := c.readObject(one, others, classes); err != nil {
			return err
		}
	}
	for kind, n := range others {
		c.Notes = append(c.Notes, fmt.Sprintf("not used: %d of kind %s", n, kind))
	}
	c.apply(classes)
	slices.Sort(c.Notes)
	if len(c.Pools) == 0 || len(c.Pools) > mostPools {
		return fmt.Errorf("there are %d NodePools, want 1 to %d", len(c.Pools), mostPools)
	}
	slices.SortStableFunc(c.Pools, func(a, b Pool) int { return cmp.Or(cmp.Compare(b.Weight, a.Weight), cmp.Compare(a.Name, b.Name)) })
	return nil
}

// readObject reads a NodePool or a class of nodes; what is neither is counted.
func (c *Catalog) readObject(js []byte, others map[string]int, classes map[string]class) error {
	var kind metav1.TypeMeta
	if err := json.Unmarshal(js, &kind); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	switch {
	case kind.Kind == "NodePool":
		return c.readPool(js)
	case strings.HasSuffix(kind.Kind, "NodeClass"):
		name, read, err := c.readClass(kind.Kind, js)
		classes[name] = read
		return err
	}
	others[cmp.Or(kind.Kind, "nothing")]++
	return nil
}

func (c *Catalog) readPool(js []byte) error {
	var f poolFile
	if err := json.Unmarshal(js, &f); err != nil {
		return err
	}
	t := &f.Spec.Template
	p := Pool{
		Name: f.Metadata.Name, Weight: f.Spec.Weight, Labels: t.Metadata.Labels, Taints: t.Spec.Taints, Limits: f.Spec.Limits,
		Manifest: slices.Clone(js), class: t.Spec.NodeClassRef.Name,
	}
	if p.Name == "" || c.Pool(p.Name) != nil {
		return fmt.Errorf("a NodePool has no name, or one that another has: %q", p.Name)
	}
	for _, r := range t.Spec.Requirements {
		p.Requirements = append(p.Requirements, r.NodeSelectorRequirement)
		if r.MinValues != nil {
			c.Notes = append(c.Notes, fmt.Sprintf("NodePool %s: minValues is read by --autoscaler karpenter only", p.Name))
		}
	}
	if len(t.Spec.StartupTaints) > 0 {
		c.Notes = append(c.Notes, fmt.Sprintf("not used: startupTaints of NodePool %s", p.Name))
	}
	if f.Spec.Replicas != nil {
		c.Notes = append(c.Notes, fmt.Sprintf("not used: replicas of NodePool %s", p.Name))
	}
	for name, q := range p.Limits {
		if q.Sign() < 0 {
			return fmt.Errorf("NodePool %s: its limit of %s is %v", p.Name, name, &q)
		}
	}
	if len(p.Limits) == 0 {
		c.Notes = append(c.Notes, fmt.Sprintf("NodePool %s has no limits: it may have %d machines", p.Name, MostNodes))
	}
	c.Pools = append(c.Pools, p)
	return nil
}

// ExampleTypes is a file of types with made-up prices, for who brings none.
//
//go:embed types.yaml
var ExampleTypes []byte
