package web

import (
	"cmp"
	"math"
	"time"

	"gnnsched/cmd/internal/top/state"
)

// shownPending is the number of pending pods on the page, the oldest ones.
const shownPending = 200

// trouble is why the cluster is not shown.
type trouble struct {
	Message string `json:"message"`
}

// clusterNow is the cluster at a moment. It has no time of its own, so that a cluster in which nothing happens is sent once.
type clusterNow struct {
	Title      string      `json:"title"`
	Decides    bool        `json:"decides"` // the scheduler keeps its decisions
	Lost       *lost       `json:"lost,omitempty"`
	Totals     totals      `json:"totals"`
	CPUSpread  float64     `json:"cpuSpread"` // standard deviation over the workers
	Schedulers []scheduler `json:"schedulers"`
	Nodes      []node      `json:"nodes"`
	Pending    []pending   `json:"pending"` // the oldest shownPending
}

// lost says since when the API server has not answered.
type lost struct {
	Since  time.Time `json:"since"`
	Reason string    `json:"reason"`
}

// usage is a requested and an allocatable amount.
type usage [2]int64

type totals struct {
	Nodes    int   `json:"nodes"`
	Ready    int   `json:"ready"`
	Cordoned int   `json:"cordoned"`
	Pending  int   `json:"pending"`
	CPU      usage `json:"cpu"`    // millicores
	Memory   usage `json:"memory"` // bytes
	GPU      usage `json:"gpu"`    // thousandths of devices
	Pods     usage `json:"pods"`
}

type scheduler struct {
	Name    string  `json:"name"`
	Bound   int     `json:"bound"`
	Pending int     `json:"pending"`
	Rate    float64 `json:"rate"` // pods bound per second
}

type node struct {
	Name     string `json:"name"`
	Zone     string `json:"zone"`
	Status   string `json:"status"`
	Ready    bool   `json:"ready"`
	Worker   bool   `json:"worker"`
	GPUModel string `json:"gpuModel,omitempty"`
	CPU      usage  `json:"cpu"`
	Memory   usage  `json:"memory"`
	GPU      usage  `json:"gpu"`
	Pods     usage  `json:"pods"`
	Used     *usage `json:"used,omitempty"` // measured millicores and bytes
}

type pending struct {
	Pod       string    `json:"pod"` // NAMESPACE/NAME
	Workload  string    `json:"workload,omitempty"`
	Scheduler string    `json:"scheduler"`
	Created   time.Time `json:"created"`
	Reason    string    `json:"reason"`
	Message   string    `json:"message"`
	Needs     string    `json:"needs,omitempty"` // node labels that it selects
}

// publishCluster publishes the cluster, if it is read.
func (s *server) publishCluster() {
	src := s.source.Load()
	if src == nil {
		return
	}
	f := (*src).Frame(shownPending)
	s.tell(topicTrouble, nil)
	s.tell(topicCluster, s.clusterOf(&f))
}

func (s *server) clusterOf(f *state.Frame) clusterNow {
	t := &f.Totals
	out := clusterNow{
		Title: s.config.Title, Decides: s.config.Book != nil, CPUSpread: math.Round(f.CPUSpread.Std*1e4) / 1e4,
		Totals: totals{
			Nodes: t.Nodes, Ready: t.Ready, Cordoned: t.Cordoned, Pending: f.PendingCount,
			CPU: usageOf(t.CPU), Memory: usageOf(t.Memory), GPU: usageOf(t.GPU), Pods: usageOf(t.Pods),
		},
		Schedulers: make([]scheduler, len(f.Schedulers)), Nodes: make([]node, len(f.Nodes)), Pending: make([]pending, len(f.Pending)),
	}
	if f.Lost != nil {
		out.Lost = &lost{f.Lost.Since.UTC(), f.Lost.Reason}
	}
	for i, x := range f.Schedulers {
		out.Schedulers[i] = scheduler{cmp.Or(x.Name, "-"), x.Bound, x.Pending, math.Round(x.Rate*10) / 10}
	}
	for i := range f.Nodes {
		out.Nodes[i] = nodeOf(&f.Nodes[i])
	}
	for i := range f.Pending {
		out.Pending[i] = pendingOf(&f.Pending[i])
	}
	return out
}

func nodeOf(n *state.Node) node {
	out := node{
		Name: n.Name, Zone: n.Zone, Status: n.Status, Ready: n.Ready, Worker: n.Worker, GPUModel: n.GPUModel,
		CPU: usageOf(n.CPU), Memory: usageOf(n.Memory), GPU: usageOf(n.GPU), Pods: usageOf(n.Pods),
	}
	if n.Used != nil {
		out.Used = &usage{n.Used.CPU, n.Used.Memory}
	}
	return out
}

func pendingOf(p *state.PendingPod) pending {
	return pending{p.Namespace + "/" + p.Name, p.Workload, p.Scheduler, p.Created.UTC(), p.Reason, p.Message, p.Needs}
}

func usageOf(u state.Usage) usage { return usage{u.Requested, u.Allocatable} }
