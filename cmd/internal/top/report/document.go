package report

import (
	"time"

	"gnnsched/cmd/internal/top/state"
)

// The identity of the schema below. Fields are added to it, never renamed or removed.
const (
	APIVersion = "gnnsched.io/v1"
	Kind       = "ClusterTop"
)

// Document is the JSON and YAML form of a frame. Lists are never null; docs/ktop.md
// describes every field.
type Document struct {
	APIVersion   string        `json:"apiVersion"`
	Kind         string        `json:"kind"`
	Time         time.Time     `json:"time"`
	Disconnected *Disconnected `json:"disconnected,omitempty"`
	Totals       Totals        `json:"totals"`
	CPUSpread    Spread        `json:"cpuSpread"`
	Schedulers   []Scheduler   `json:"schedulers"`
	Nodes        []Node        `json:"nodes"`
	Pending      []Pending     `json:"pending"`
}

// Disconnected says since when the figures are old.
type Disconnected struct {
	Since  time.Time `json:"since"`
	Reason string    `json:"reason"`
}

// Totals is the sum over the nodes.
type Totals struct {
	Nodes    int  `json:"nodes"`
	Ready    int  `json:"ready"`
	Cordoned int  `json:"cordoned"`
	Pending  int  `json:"pendingPods"`
	CPU      CPU  `json:"cpu"`
	Memory   Mem  `json:"memory"`
	GPU      Many `json:"gpu"`
	Pods     Pods `json:"pods"`
}

// CPU is in millicores.
type CPU struct {
	Requested   int64   `json:"requestedMillicores"`
	Allocatable int64   `json:"allocatableMillicores"`
	Fraction    float64 `json:"fraction"`
}

// Mem is in bytes.
type Mem struct {
	Requested   int64   `json:"requestedBytes"`
	Allocatable int64   `json:"allocatableBytes"`
	Fraction    float64 `json:"fraction"`
}

// Many counts devices.
type Many struct {
	Requested   int64   `json:"requested"`
	Allocatable int64   `json:"allocatable"`
	Fraction    float64 `json:"fraction"`
}

// Pods counts pods that have not ended.
type Pods struct {
	Count       int64   `json:"count"`
	Allocatable int64   `json:"allocatable"`
	Fraction    float64 `json:"fraction"`
}

// Spread is over the worker nodes' CPU fractions.
type Spread struct {
	Nodes    int     `json:"nodes"`
	Mean     float64 `json:"mean"`
	Std      float64 `json:"std"`
	Variance float64 `json:"variance"`
	Min      float64 `json:"min"`
	Max      float64 `json:"max"`
}

// Scheduler is one scheduler's share of the pods.
type Scheduler struct {
	Name           string  `json:"name"`
	Bound          int     `json:"boundPods"`
	Pending        int     `json:"pendingPods"`
	BoundPerSecond float64 `json:"boundPerSecond"`
}

// Node is one node.
type Node struct {
	Name       string    `json:"name"`
	Status     string    `json:"status"`
	Ready      bool      `json:"ready"`
	Cordoned   bool      `json:"cordoned"`
	Worker     bool      `json:"worker"`
	Roles      []string  `json:"roles"`
	Created    time.Time `json:"createdAt"`
	Version    string    `json:"version"`
	Zone       string    `json:"zone"`
	InternalIP string    `json:"internalIP"`
	Taints     []string  `json:"taints"`
	CPU        CPU       `json:"cpu"`
	Memory     Mem       `json:"memory"`
	GPU        Many      `json:"gpu"`
	Pods       Pods      `json:"pods"`
}

// Pending is one pod that waits for a node.
type Pending struct {
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	Scheduler string    `json:"scheduler"`
	Created   time.Time `json:"createdAt"`
	Reason    string    `json:"reason"`
	Message   string    `json:"message"`
}

// DocumentOf returns the frame as a document; nodes keep their order.
func DocumentOf(f *state.Frame) Document {
	t, s := &f.Totals, f.CPUSpread
	d := Document{
		APIVersion: APIVersion, Kind: Kind, Time: f.Time.UTC(),
		Totals: Totals{
			Nodes: t.Nodes, Ready: t.Ready, Cordoned: t.Cordoned, Pending: f.PendingCount,
			CPU: cpu(t.CPU), Memory: memory(t.Memory), GPU: many(t.GPU), Pods: pods(t.Pods),
		},
		CPUSpread:  Spread{Nodes: s.Nodes, Mean: s.Mean, Std: s.Std, Variance: s.Std * s.Std, Min: s.Min, Max: s.Max},
		Schedulers: []Scheduler{}, Nodes: []Node{}, Pending: []Pending{},
	}
	if f.Lost != nil {
		d.Disconnected = &Disconnected{Since: f.Lost.Since.UTC(), Reason: f.Lost.Reason}
	}
	for _, s := range f.Schedulers {
		d.Schedulers = append(d.Schedulers, Scheduler{Name: s.Name, Bound: s.Bound, Pending: s.Pending, BoundPerSecond: s.Rate})
	}
	for i := range f.Nodes {
		d.Nodes = append(d.Nodes, nodeOf(&f.Nodes[i]))
	}
	for _, p := range f.Pending {
		d.Pending = append(d.Pending, Pending{
			Namespace: p.Namespace, Name: p.Name, Scheduler: p.Scheduler,
			Created: p.Created.UTC(), Reason: p.Reason, Message: p.Message,
		})
	}
	return d
}

func nodeOf(n *state.Node) Node {
	return Node{
		Name: n.Name, Status: n.Status, Ready: n.Ready, Cordoned: n.Cordoned, Worker: n.Worker,
		Roles: append([]string{}, n.Roles...), Created: n.Created.UTC(), Version: n.Version, Zone: n.Zone,
		InternalIP: n.InternalIP, Taints: append([]string{}, n.Taints...),
		CPU: cpu(n.CPU), Memory: memory(n.Memory), GPU: many(n.GPU), Pods: pods(n.Pods),
	}
}

func cpu(u state.Usage) CPU    { return CPU{u.Requested, u.Allocatable, u.Fraction()} }
func memory(u state.Usage) Mem { return Mem{u.Requested, u.Allocatable, u.Fraction()} }
func many(u state.Usage) Many  { return Many{u.Requested, u.Allocatable, u.Fraction()} }
func pods(u state.Usage) Pods  { return Pods{u.Requested, u.Allocatable, u.Fraction()} }
