package nodepool

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/kube"
	"gnnsched/internal/each"
	"gnnsched/internal/exit"
	"gnnsched/workload/record"
	"gnnsched/workload/record/play"
)

const (
	maxFile     = 1 << 20 // bytes of a pool file
	maxPools    = 1000    // in one file
	maxQuantity = 40      // characters
)

const parseHint = "docs/reference/nodes.md describes the format; an example:\n  pools: [{name: node, count: 10, capacity: {cpu: \"64\", " +
	"memory: 256Gi, pods: 110}}]"

// Load reads the pool file at path, see Parse.
func Load(path string) ([]Pool, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, exit.New(exit.Usage, fmt.Errorf("open the node pools: %w", err), "")
	}
	defer f.Close() //nolint:errcheck // only read
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, exit.New(exit.Usage, fmt.Errorf("read the node pools: %w", err), "")
	}
	return Parse(path, b)
}

// Parse decodes a pool file. Unknown and repeated fields, values of the wrong type and everything
// that Validate rejects are errors. The error is a usage error that lists every fault with the
// file's name, the line and the field.
func Parse(name string, b []byte) ([]Pool, error) {
	p := parser{name: name, lines: map[string]int{}}
	pools := p.file(b)
	if len(p.errs) == 0 {
		p.addFaults(Validate(pools))
	}
	if len(p.errs) > 0 {
		return nil, exit.New(exit.Usage, errors.Join(p.errs...), parseHint)
	}
	return pools, nil
}

// parser walks the YAML tree instead of decoding into structs, because errors need the line of
// each field.
type parser struct {
	name  string
	lines map[string]int // line of each field, by joinPath
	errs  []error
}

func (p *parser) fail(line int, path []any, format string, a ...any) {
	where := p.name
	if line > 0 {
		where += ":" + strconv.Itoa(line)
	}
	if len(path) > 0 {
		where += ": " + joinPath(path)
	}
	p.errs = append(p.errs, fmt.Errorf("%s: %s", where, fmt.Sprintf(format, a...)))
}

// addFaults adds the faults that Validate found. Each gets the line of its field, or of the
// innermost enclosing field that is in the file.
func (p *parser) addFaults(err error) {
	if err == nil {
		return
	}
	var joined interface{ Unwrap() []error }
	if !errors.As(err, &joined) {
		p.errs = append(p.errs, err)
		return
	}
	for _, e := range joined.Unwrap() {
		var f *fieldError
		if !errors.As(e, &f) {
			p.errs = append(p.errs, e)
			continue
		}
		line := 0
		for n := len(f.path); n > 0 && line == 0; n-- {
			line = p.lines[joinPath(f.path[:n])]
		}
		p.fail(line, f.path, "%s", f.reason)
	}
}

var yamlLine = regexp.MustCompile(`^yaml: line (\d+): `)

func (p *parser) file(b []byte) []Pool {
	if len(b) > maxFile {
		p.fail(0, nil, "is larger than %d bytes", maxFile)
		return nil
	}
	dec := yaml.NewDecoder(bytes.NewReader(b))
	var doc, more yaml.Node
	switch err := dec.Decode(&doc); {
	case errors.Is(err, io.EOF):
		p.fail(0, nil, "is empty")
		return nil
	case err != nil:
		line := 0
		if m := yamlLine.FindStringSubmatch(err.Error()); m != nil {
			line, _ = strconv.Atoi(m[1])
		}
		p.fail(line, nil, "is not YAML: %s", strings.TrimPrefix(yamlLine.ReplaceAllString(err.Error(), ""), "yaml: "))
		return nil
	}
	if err := dec.Decode(&more); !errors.Is(err, io.EOF) {
		p.fail(more.Line, nil, "has more than one YAML document; put all pools in one list")
		return nil
	}
	var pools []Pool
	found := false
	p.object(doc.Content[0], nil, map[string]func(*yaml.Node, []any){
		"pools": func(n *yaml.Node, path []any) {
			found = true
			p.list(n, path, func(n *yaml.Node, path []any) {
				if len(pools) < maxPools {
					pools = append(pools, p.pool(n, path))
				} else if len(pools) == maxPools {
					p.fail(n.Line, path, "more than %d pools", maxPools)
					pools = append(pools, Pool{})
				}
			})
		},
	})
	if len(p.errs) == 0 && (!found || len(pools) == 0) {
		p.fail(0, []any{"pools"}, "must list at least one pool")
	}
	return pools
}

func (p *parser) pool(n *yaml.Node, path []any) Pool {
	var out Pool
	count, zone := false, ""
	p.object(n, path, map[string]func(*yaml.Node, []any){
		"name":  func(n *yaml.Node, path []any) { out.Name = p.text(n, path) },
		"count": func(n *yaml.Node, path []any) { out.Count, count = p.integer(n, path), true },
		"capacity": func(n *yaml.Node, path []any) {
			out.Capacity = corev1.ResourceList{}
			p.each(n, path, func(key string, n *yaml.Node, path []any) {
				out.Capacity[corev1.ResourceName(key)] = p.quantity(n, path)
			})
		},
		"labels": func(n *yaml.Node, path []any) {
			out.Labels = map[string]string{}
			p.each(n, path, func(key string, n *yaml.Node, path []any) { out.Labels[key] = p.text(n, path) })
		},
		"taints": func(n *yaml.Node, path []any) {
			p.list(n, path, func(n *yaml.Node, path []any) { out.Taints = append(out.Taints, p.taint(n, path)) })
		},
		"devices": func(n *yaml.Node, path []any) {
			p.list(n, path, func(n *yaml.Node, path []any) { out.Devices = append(out.Devices, p.devices(n, path)) })
		},
		"zone": func(n *yaml.Node, path []any) { zone = p.text(n, path) },
		"zones": func(n *yaml.Node, path []any) {
			p.list(n, path, func(n *yaml.Node, path []any) { out.Zones = append(out.Zones, p.text(n, path)) })
		},
	})
	if n.Kind == yaml.MappingNode && !count {
		p.fail(n.Line, append(slices.Clone(path), "count"), "is required: the number of nodes")
	}
	if zone != "" {
		if len(out.Zones) > 0 {
			p.fail(n.Line, append(slices.Clone(path), "zone"), "set either zone or zones, not both")
		}
		out.Zones = []string{zone}
		p.lines[joinPath(append(slices.Clone(path), "zones", 0))] = p.lines[joinPath(append(slices.Clone(path), "zone"))]
	}
	return out
}

func (p *parser) taint(n *yaml.Node, path []any) corev1.Taint {
	var t corev1.Taint
	p.object(n, path, map[string]func(*yaml.Node, []any){
		"key":    func(n *yaml.Node, path []any) { t.Key = p.text(n, path) },
		"value":  func(n *yaml.Node, path []any) { t.Value = p.text(n, path) },
		"effect": func(n *yaml.Node, path []any) { t.Effect = corev1.TaintEffect(p.text(n, path)) },
	})
	return t
}

func (p *parser) devices(n *yaml.Node, path []any) Devices {
	var d Devices
	p.object(n, path, map[string]func(*yaml.Node, []any){
		"driver":  func(n *yaml.Node, path []any) { d.Driver = p.text(n, path) },
		"product": func(n *yaml.Node, path []any) { d.Product = p.text(n, path) },
		"count":   func(n *yaml.Node, path []any) { d.Count = p.integer(n, path) },
		"memory":  func(n *yaml.Node, path []any) { d.Memory = p.quantity(n, path) },
		"shares":  func(n *yaml.Node, path []any) { d.Shares = p.integer(n, path) },
		"mig": func(n *yaml.Node, path []any) {
			p.list(n, path, func(n *yaml.Node, path []any) { d.MIG = append(d.MIG, p.text(n, path)) })
		},
	})
	return d
}

// object walks a mapping that may have the given fields.
func (p *parser) object(n *yaml.Node, path []any, fields map[string]func(*yaml.Node, []any)) {
	p.each(n, path, func(key string, n *yaml.Node, path []any) {
		if f, ok := fields[key]; ok {
			f(n, path)
			return
		}
		p.fail(p.lines[joinPath(path)], path, "unknown field; the fields are %s", strings.Join(slices.Sorted(maps.Keys(fields)), ", "))
	})
}

// each walks a mapping with any keys. An empty value is an empty mapping.
func (p *parser) each(n *yaml.Node, path []any, f func(key string, value *yaml.Node, path []any)) {
	n = resolve(n)
	if null(n) {
		return
	}
	if n.Kind != yaml.MappingNode {
		p.fail(n.Line, path, "must be fields and values, not %s", kind(n))
		return
	}
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := resolve(n.Content[i]), resolve(n.Content[i+1])
		if k.Kind != yaml.ScalarNode {
			p.fail(k.Line, path, "a field's name must be text, not %s", kind(k))
			continue
		}
		sub := append(slices.Clone(path), k.Value)
		line := n.Content[i].Line
		p.lines[joinPath(sub)] = line
		if first, dup := seen[k.Value]; dup {
			p.fail(line, sub, "is repeated; it is first in line %d", first)
			continue
		}
		seen[k.Value] = line
		f(k.Value, v, sub)
	}
}

func (p *parser) list(n *yaml.Node, path []any, f func(*yaml.Node, []any)) {
	n = resolve(n)
	if null(n) {
		return
	}
	if n.Kind != yaml.SequenceNode {
		p.fail(n.Line, path, "must be a list, not %s", kind(n))
		return
	}
	for i, item := range n.Content {
		sub := append(slices.Clone(path), i)
		p.lines[joinPath(sub)] = item.Line
		f(resolve(item), sub)
	}
}

func (p *parser) text(n *yaml.Node, path []any) string {
	switch {
	case null(n):
	case n.Kind != yaml.ScalarNode:
		p.fail(n.Line, path, "must be text, not %s", kind(n))
	case n.ShortTag() != "!!str":
		p.fail(n.Line, path, "%s is %s in YAML; write %q in quotes", n.Value, kind(n), n.Value)
	default:
		return n.Value
	}
	return ""
}

func (p *parser) integer(n *yaml.Node, path []any) int {
	i, err := strconv.Atoi(n.Value)
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!int" || err != nil {
		p.fail(n.Line, path, "must be a whole number, not %s", kind(n))
		return 0
	}
	return i
}

func (p *parser) quantity(n *yaml.Node, path []any) resource.Quantity {
	if n.Kind != yaml.ScalarNode || null(n) {
		p.fail(n.Line, path, "must be a quantity such as 64, 500m or 256Gi, not %s", kind(n))
		return resource.Quantity{}
	}
	if len(n.Value) > maxQuantity {
		p.fail(n.Line, path, "is longer than %d characters", maxQuantity)
		return resource.Quantity{}
	}
	q, err := resource.ParseQuantity(n.Value)
	if err != nil {
		p.fail(n.Line, path, "%q is not a quantity such as 64, 500m or 256Gi", n.Value)
	}
	return q
}

func resolve(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

func null(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

// kind describes the type of a value in plain words.
func kind(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "fields and values"
	case yaml.SequenceNode:
		return "a list"
	}
	switch n.ShortTag() {
	case "!!null":
		return "nothing"
	case "!!int", "!!float":
		return "a number"
	case "!!bool":
		return "true or false"
	case "!!str":
		return "text"
	}
	return "a " + strings.TrimPrefix(n.ShortTag(), "!!")
}

// Recorded returns a pool of one node for each node of a record at a time, and notes about omissions.
func Recorded(m record.Moment) ([]Pool, []string, error) {
	machines, notes, err := play.Machines(m)
	if err != nil {
		return nil, nil, err
	}
	nodes := each.Map(machines, func(machine play.Machine) *cluster.Node { return machine.Node })
	out := Single(nodes, InCapacity)
	for i, machine := range machines {
		maps.Copy(out[i].Capacity, machine.Extended)
	}
	if err := Validate(out); err != nil {
		return nil, nil, fmt.Errorf("%s has nodes that cannot be simulated: %w", m.Dir, err)
	}
	return out, notes, nil
}

// Offer is a way in which nodes offer their GPUs.
type Offer string

const (
	InCapacity Offer = "capacity" // as resources of the node, to pods with annotations
	InSlices   Offer = "slices"   // in ResourceSlices, to claims
	InBoth     Offer = "both"     // the same GPUs in both ways
	InTurns    Offer = "turns"    // by turns: the first node with GPUs in both ways, the next one in slices
)

// Offers are all ways to offer GPUs.
var Offers = []Offer{InCapacity, InSlices, InBoth, InTurns}

// sharesOfDevice is the number of shares of a device in a slice: claims count in thousandths, as annotations do.
const sharesOfDevice = cluster.DeviceMilli

// Single returns a pool of one node for each given node, with the node's capacity, GPUs, GPU model, zone, labels
// and taints. Labels that kwokcluster sets itself are left out. The simulated nodes have "-0" behind their names, which
// keeps their order by name.
func Single(nodes []*cluster.Node, gpus Offer) []Pool {
	pools := make([]Pool, len(nodes))
	turn := InBoth
	for i, n := range nodes {
		offer := gpus
		if gpus == InTurns && n.Allocatable.GPU > 0 {
			if offer = turn; turn == InBoth {
				turn = InSlices
			} else {
				turn = InBoth
			}
		}
		offered := n.Allocatable
		if offer == InSlices {
			offered.GPU = 0
		}
		p := Pool{Name: n.Name, Count: 1, Capacity: kube.Capacity(offered), Taints: kube.Taints(n.Taints)}
		if offer != InCapacity && n.Allocatable.GPU > 0 {
			p.Devices = []Devices{{Product: n.GPUModel, Count: int(n.Allocatable.GPU), Shares: sharesOfDevice}}
		}
		p.Labels = kube.NodeLabels(n)
		maps.DeleteFunc(p.Labels, func(k, _ string) bool { return reserved[k] })
		pools[i] = p
	}
	return pools
}
