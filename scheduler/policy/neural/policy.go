package neural

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"
	"time"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/feature"
	"gnnsched/gnn/graph"
	"gnnsched/gnn/infer"
	"gnnsched/internal/cluster"
	"gnnsched/internal/exit"
	"gnnsched/internal/fragmentation"
	"gnnsched/scheduler/encode"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/policy/supply"
)

// Policy scores with a network. Score fails with infer.ErrDeadline or infer.ErrNaN; after ErrNaN or a
// panic the policy must not be used again.
type Policy interface {
	policy.DeviceChooser
	policy.Reader
	// Until makes every later Score fail with infer.ErrDeadline once expired returns true. nil means
	// never.
	Until(expired func() bool)
}

// New returns a policy with the given name that runs net for a workload with the given typical pods, which are nil if they are not known:
// a supply.Policy of a network on the graph of kinds, a GPUPolicy of another that values nodes, else a graphPolicy. Only networks that read
// devices depend on the typical pods.
func New(name string, net *infer.Network, typical *fragmentation.Typical) Policy {
	switch {
	case net.Architecture().Graph == checkpoint.KindsGraph:
		prices := newKindPrices(net)
		return kindPolicy{supply.New(name, prices), prices}
	case net.ValuesNodes():
		return newGPU(name, net, typical)
	}
	return newGraph(name, net)
}

// kindPolicy scores with prices of a network on the graph of kinds. The devices are those that cluster.Node.ChooseDevices chooses.
type kindPolicy struct {
	*supply.Policy
	prices *kindPrices
}

// Devices implements policy.DeviceChooser.
func (kindPolicy) Devices(n *cluster.Node, pod *cluster.Pod) cluster.DeviceSet {
	return n.ChooseDevices(pod.Requests)
}

// Until implements Policy. The deadline is that of the network; what a placement takes from each kind is counted after it.
func (p kindPolicy) Until(expired func() bool) { p.prices.expired = expired }

// graphPolicy scores with a network on the cluster graph, with devices or without. It keeps the encoded graph and the network's
// session from one decision to the next, so the cost of a decision depends only on the candidates
// and on what has changed.
type graphPolicy struct {
	name    string
	encoder *encode.Encoder
	session *infer.Session
	expired func() bool  // whether the decision's deadline has passed; nil: there is none
	last    *graph.Graph // of the last Score
}

func newGraph(name string, net *infer.Network) *graphPolicy {
	return &graphPolicy{name: name, encoder: encode.New(net.Layout()), session: net.NewSession()}
}

// Devices implements policy.DeviceChooser.
func (l *graphPolicy) Devices(n *cluster.Node, pod *cluster.Pod) cluster.DeviceSet {
	return n.ChooseDevices(pod.Requests)
}

// Name implements policy.Policy.
func (l *graphPolicy) Name() string { return l.name }

// Until implements Policy.
func (l *graphPolicy) Until(expired func() bool) { l.expired = expired }

// Score implements policy.Policy.
func (l *graphPolicy) Score(s *cluster.Snapshot, pod *cluster.Pod, candidates []int32, scores []float32) error {
	l.last = l.encoder.Encode(s, pod, candidates)
	out, err := l.session.Score(l.last, l.expired)
	if err != nil {
		return err
	}
	copy(scores, out)
	return nil
}

// Reading implements policy.Reader.
func (l *graphPolicy) Reading(_ *cluster.Snapshot, _ *cluster.Pod, _ []int32, i int) *policy.Reading {
	return &policy.Reading{Kind: policy.NetworkReading, Features: l.session.Reading(l.last, i)}
}

// Load reads the weights of a network from a file, and tries the network on some decisions. Its errors have exit code 5 and
// say what to do.
func Load(path string) (*checkpoint.Checkpoint, error) {
	c, err := checkpoint.Load(path)
	if err == nil {
		if err = Try(c); err != nil {
			err = fmt.Errorf("load checkpoint %s: %w", path, err)
		}
	}
	switch {
	case err == nil:
		return c, nil
	case errors.Is(err, fs.ErrNotExist):
		return nil, exit.New(exit.Checkpoint, err, "train one with gnntrain, or leave --checkpoint out to use the one in the program")
	case errors.Is(err, checkpoint.ErrFile), errors.Is(err, fs.ErrPermission):
		return nil, exit.New(exit.Checkpoint, err, "name a file with weights that you can read")
	case errors.Is(err, ErrFails):
		return nil, exit.New(exit.Checkpoint, err, "its weights are of no use: take an earlier copy of the file, or train it again with gnntrain")
	case errors.Is(err, feature.ErrGone):
		return nil, exit.New(exit.Checkpoint, err, "")
	case errors.Is(err, checkpoint.ErrSchema):
		return nil, exit.New(exit.Checkpoint, err, "train it again with this version: gnntrain, or gnnsched.save in Python")
	}
	return nil, exit.New(exit.Checkpoint, err, "the file is damaged: copy it again, or train it again with gnntrain")
}

// ErrFails is in the error of a network that fails in a decision.
var ErrFails = errors.New("the network fails in a trial decision")

// Decision is a question that a network must be able to answer: which of the nodes Candidates is the best for Pod.
type Decision struct {
	Snapshot   *cluster.Snapshot
	Pod        *cluster.Pod
	Candidates []int32                // rows of Snapshot.Nodes
	Typical    *fragmentation.Typical // the workload's typical pods; nil if they are not known
}

// Try lets the checkpoint's network score decisions that every network must be able to make, and further ones. The error wraps ErrFails
// if it gives a score that is not finite, or panics. No deadline holds.
func Try(c *checkpoint.Checkpoint, more ...Decision) error {
	net, err := infer.New(c)
	if err != nil {
		return err
	}
	for _, d := range append(standard(), more...) {
		if err := try(net, d); err != nil {
			return fmt.Errorf("%w: %w", ErrFails, err)
		}
	}
	return nil
}

// try makes one decision.
func try(net *infer.Network, d Decision) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("it panicked: %v", r)
		}
	}()
	return New("probe", net, d.Typical).Score(d.Snapshot, d.Pod, d.Candidates, make([]float32, len(d.Candidates)))
}

// standard returns decisions about pods with and without GPUs, on machines with and without them, from idle to nearly full.
func standard() (out []Decision) {
	s := &cluster.Snapshot{}
	for i, cores := range []int64{4, 16, 64, 128, 8, 96, 96, 32} {
		n := &cluster.Node{
			Name: fmt.Sprint("probe-", i), Zone: []string{"a", "b", "c"}[i%3], Version: cluster.NextVersion(),
			Allocatable: cluster.Resources{MilliCPU: 1000 * cores, Memory: cores << 32, Pods: 110},
		}
		if cores >= 64 {
			n.Allocatable.GPU, n.GPUs, n.GPUModel = 8, make([]int64, 8), []string{"A100", "T4"}[i%2]
		}
		for range 2 * i { // 0 to 7 sixteenths of its cores
			n.Add(cluster.Resources{MilliCPU: 31 * cores, Memory: cores << 27, Pods: 1})
		}
		if n.GPUs != nil && i%2 == 1 {
			n.Add(cluster.Resources{MilliCPU: 1000, Memory: 1 << 30, GPU: 4, Pods: 1})
			n.Add(cluster.Resources{MilliCPU: 1000, Memory: 1 << 30, GPUMilli: 300, Pods: 1})
		}
		s.Nodes = append(s.Nodes, n)
	}
	requests := []cluster.Resources{
		{MilliCPU: 100, Memory: 128 << 20, Pods: 1}, {MilliCPU: 3000, Memory: 8 << 30, Pods: 1}, {Pods: 1},
		{MilliCPU: 1000, Memory: 4 << 30, GPUMilli: 500, Pods: 1}, {MilliCPU: 8000, Memory: 64 << 30, GPU: 2, Pods: 1},
	}
	var demands []fragmentation.Demand
	for _, r := range requests {
		demands = append(demands, fragmentation.Demand{Requests: r, Count: 1})
	}
	typical := fragmentation.NewTypical(demands)
	s.Demand = &cluster.Demand{}
	for i := range requests {
		p := &cluster.Pod{Requests: requests[i]}
		s.Demand.Arrive(cluster.KindKey(p), p)
	}
	for i := range requests {
		p := &cluster.Pod{Name: "probe", Requests: requests[i]}
		out = append(out, Decision{Snapshot: s, Pod: p, Candidates: s.Feasible(p, nil), Typical: typical})
	}
	return out
}

const (
	keptDecisions = 8
	keptNodes     = 64               // of a decision; of more, every k-th is kept
	keepEvery     = 10 * time.Second // the time between two decisions that are kept
)

// Latest holds the latest decisions of a scheduler, one for each ten seconds, so that a new network can be tried on them. The zero
// value holds none. It is safe for concurrent use.
type Latest struct {
	mu   sync.Mutex
	next time.Time
	ring []Decision
	at   int // of the oldest, once the ring is full
}

// Keep keeps a copy of a decision that was made at a time, unless another was kept shortly before.
func (k *Latest) Keep(d Decision, at time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if at.Before(k.next) {
		return
	}
	k.next = at.Add(keepEvery)
	if len(k.ring) < keptDecisions {
		k.ring = append(k.ring, d.copy())
		return
	}
	k.ring[k.at] = d.copy()
	k.at = (k.at + 1) % keptDecisions
}

// Decisions returns the decisions that are kept. The caller must not change them.
func (k *Latest) Decisions() []Decision {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.ring)
}

// copy returns the decision on a cluster of its candidates alone.
func (d Decision) copy() Decision {
	s, pod := &cluster.Snapshot{}, *d.Pod
	for i := 0; i < len(d.Candidates); i += (len(d.Candidates) + keptNodes - 1) / keptNodes {
		n := *d.Snapshot.Nodes[d.Candidates[i]]
		n.GPUs, n.Groups, n.Slices = slices.Clone(n.GPUs), slices.Clone(n.Groups), slices.Clone(n.Slices)
		n.Usage, n.Traffic = nil, nil // which no network reads
		s.Nodes = append(s.Nodes, &n)
	}
	rows := make([]int32, len(s.Nodes))
	for i := range rows {
		rows[i] = int32(i)
	}
	return Decision{Snapshot: s, Pod: &pod, Candidates: rows, Typical: d.Typical}
}
