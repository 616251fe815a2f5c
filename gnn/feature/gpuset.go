package feature

import (
	"fmt"
	"strings"
)

// GPUSet is a Set for the GPU graph.
type GPUSet struct {
	Name    string
	Doc     string
	Version byte // raised when a feature keeps its name and changes its meaning

	Node    []Block[GPUNode]
	Cluster []Block[GPUCluster]

	// Partitions tells that the features depend on the used memory slices of GPUs with MIG (GPUNode.Slices).
	Partitions bool
	// Topology tells that they depend on where the devices are (GPUNode.Unused and GPUNode.Taken).
	Topology bool
}

// GPULayout is Layout for the GPU graph.
type GPULayout struct {
	Node       []Block[GPUNode]
	Cluster    []Block[GPUCluster]
	Partitions bool // some features depend on the used memory slices of GPUs with MIG
	Topology   bool // some features depend on where the devices are
	Widths     GPUWidths
	hash       string
}

// GPUWidths are the lengths of the feature vectors of the GPU graph.
type GPUWidths struct{ Node, Cluster int }

// DeviceKnots is the number of knots by which the free part of a device is described, evenly from 0
// to the whole device; see graph.Knots. It is part of the schema of the GPU graph.
const DeviceKnots = 101

// NewGPULayout is NewLayout for the GPU graph; without names it returns the layout of GPUBase.
func NewGPULayout(names []string) (*GPULayout, error) {
	chosen, err := choose(gpuSets, names, GPUBase)
	if err != nil {
		return nil, err
	}
	l, schema := &GPULayout{}, []byte{}
	for _, s := range chosen {
		l.Node, l.Cluster = append(l.Node, s.Node...), append(l.Cluster, s.Cluster...)
		l.Partitions, l.Topology = l.Partitions || s.Partitions, l.Topology || s.Topology
		schema = s.appendSchema(schema)
	}
	l.Widths = GPUWidths{len(List(l.Node)), len(List(l.Cluster))}
	if l.Widths.Node == 0 || l.Widths.Cluster == 0 {
		return nil, fmt.Errorf("feature sets %s: nodes and clusters need at least one feature each", strings.Join(names, ", "))
	}
	l.hash = hash(schema)
	return l, nil
}

// DefaultGPU returns the layout of GPUBase.
func DefaultGPU() *GPULayout { return defaultGPULayout }

var defaultGPULayout = must(NewGPULayout(nil))

// Hash is Layout.Hash for the GPU graph.
func (l *GPULayout) Hash() string { return l.hash }

// appendSchema is Set.appendSchema for the GPU graph.
func (s *GPUSet) appendSchema(b []byte) []byte {
	if s.Name != GPUBase.Name {
		b = append(b, s.Name+":"...)
	}
	b = append(b, s.Version, DeviceKnots)
	return appendNames(b, List(s.Node), List(s.Cluster))
}
