package feature

import (
	"fmt"
	"strings"

	"gnnsched/internal/cluster"
)

// GPUSet is a Set for the GPU graph.
type GPUSet struct {
	Name    string
	Doc     string
	Version byte // raised when a feature keeps its name and changes its meaning

	Node    []Block[GPUNode]
	Cluster []Block[GPUCluster]
}

// GPULayout is Layout for the GPU graph.
type GPULayout struct {
	Node    []Block[GPUNode]
	Cluster []Block[GPUCluster]
	Widths  GPUWidths
	hash    string
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

// GPUNode is the context of the features of a node with GPUs, as it is or as it will be after a
// placement. A unit is Workload.Unit of CPU.
type GPUNode struct {
	State    *cluster.Node // as it is
	Workload *Workload
	MilliCPU int64   // free
	Memory   int64   // free, in bytes
	Units    float64 // of CPU, free
	Whole    float64 // devices that nobody uses
	Shared   float64 // devices that are in use and have room left
	Idle     float64 // free part of all devices together, in devices
	Unusable float64 // thousandths of devices that are free but that typical pods cannot use
	Hosts    Hosts
}

// Hosts is how much of the workload fits on a node. Of a kind of pod that the workload lacks, all
// fit.
type Hosts struct {
	All        float64 // share of the typical pods that fit
	Sharing    float64 // the same among those that share a device
	WithoutGPU float64 // the same among those that request no GPU
	Model      float64 // share of the typical GPU pods that the node's GPU model may serve
}

// Workload is what the typical pods request.
type Workload struct {
	Unit       float64 // thousandths of a core that a GPU pod requests with one device, on average
	WithoutGPU float64 // share of the pods that request no GPU
	Sharing    float64 // share of the pods that share a device
	Multi      float64 // GPUs requested by pods of several / pods
	Named      float64 // share of the pods that name GPU models
	ShareSize  float64 // mean part of a device that sharing pods request
}

// GPUCluster is the context of the features of a cluster with GPUs: sums over the nodes that
// ordinary pods may use.
type GPUCluster struct {
	Workload *Workload

	Devices, Whole    int64 // devices, and those that nobody uses
	Shared            int64 // free thousandths of devices in use
	Idle, Unusable    int64 // free thousandths, and those that typical pods cannot use
	CPU, Memory       int64 // free, in thousandths of a core and bytes
	AllCPU, AllMemory int64 // allocatable
}

// Add adds times the sums of o to those of c.
func (c *GPUCluster) Add(o *GPUCluster, times int64) {
	c.Devices += times * o.Devices
	c.Whole += times * o.Whole
	c.Shared += times * o.Shared
	c.Idle += times * o.Idle
	c.Unusable += times * o.Unusable
	c.CPU += times * o.CPU
	c.Memory += times * o.Memory
	c.AllCPU += times * o.AllCPU
	c.AllMemory += times * o.AllMemory
}

// deviceCount returns the number of devices, at least 1.
func (c *GPUCluster) deviceCount() float64 { return max(float64(c.Devices), 1) }

// wholePart returns the part of the devices that nobody uses.
func (c *GPUCluster) wholePart() float64 { return float64(c.Whole) / c.deviceCount() }
