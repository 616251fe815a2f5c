package vector

import (
	"errors"
	"fmt"

	"gnnsched/gnn/feature"
	"gnnsched/gnn/graph"
	"gnnsched/internal/cluster"
	"gnnsched/scheduler/encode"
	"gnnsched/scheduler/sim"
)

// Arrays are the caller's memory for results and observations. An observation's slice that is nil is left out; those that
// belong together must be there together. Indices run over the whole batch. A finished environment shows one candidate and
// one node, all zeros, so that every environment has an action.
type Arrays struct {
	Slots int // padded: the rows of candidates of each environment; 0: ragged

	Results

	PodX, ClusterX   []float32 // a row for each environment
	CandidateOffsets []int64   // environments + 1; ragged only
	CandidateX       []float32
	CandidateNode    []int64 // row of the candidate's node in NodeX
	Mask             []uint8 // by candidate: 1 if it may be chosen

	NodeOffsets, ZoneOffsets []int64 // environments + 1
	NodeX                    []float32
	NodeZone                 []int64
	GroupX, GroupWeight      []float32 // groups of equal pods; Weight counts the pods
	GroupNode                []int64   // row in NodeX

	// RawNode values a node: allocatable CPU (thousandths), memory (bytes), GPUs, thousandths of a GPU and pods, then requested
	NodeRaw []int64
	PodRaw  []int64 // RawPod values an environment: what the pod requests

	Rows Counts // written: the rows in use, or the rows that are needed after ErrRoom
}

// Results hold the last step's outcome of each environment. Each slice has one element for each environment.
type Results struct {
	Reward      []float64
	Terminated  []uint8   // 1 in the step that ends the episode
	Objective   []float64 // cost of the present state; after the end that of the outcome
	Unscheduled []int64   // pods without a node; -1 before the end
	Waited      []int64   // pods that had to wait so far
	Decisions   []int64   // of the episode so far
	Seed        []uint64  // of the episode
}

// Shape says which arrays NewArrays makes.
type Shape struct {
	Count  int // environments
	Slots  int // as Arrays.Slots
	Widths feature.Widths
	Rows   Counts // room, of Candidates for ragged arrays only
	Graph  bool   // nodes, zones and groups too
	Raw    bool   // the integers too
}

// NewArrays returns arrays of this shape.
func NewArrays(s Shape) *Arrays {
	n, w, rows := s.Count, s.Widths, s.Rows
	a := &Arrays{Slots: s.Slots, Results: Results{
		Reward: make([]float64, n), Terminated: make([]uint8, n), Objective: make([]float64, n), Unscheduled: make([]int64, n),
		Waited: make([]int64, n), Decisions: make([]int64, n), Seed: make([]uint64, n),
	}}
	candidates := n * s.Slots
	if s.Slots == 0 {
		a.CandidateOffsets, candidates = make([]int64, n+1), rows.Candidates
	}
	a.Mask = make([]uint8, candidates)
	if w.Pod > 0 {
		a.PodX, a.ClusterX, a.CandidateX = make([]float32, n*w.Pod), make([]float32, n*w.Cluster), make([]float32, candidates*w.Candidate)
	}
	if s.Graph || s.Raw {
		a.CandidateNode, a.NodeOffsets, a.ZoneOffsets = make([]int64, candidates), make([]int64, n+1), make([]int64, n+1)
	}
	if s.Graph {
		a.NodeX, a.NodeZone = make([]float32, rows.Nodes*w.Node), make([]int64, rows.Nodes)
		a.GroupX, a.GroupWeight, a.GroupNode = make([]float32, rows.Groups*w.Group), make([]float32, rows.Groups), make([]int64, rows.Groups)
	}
	if s.Raw {
		a.NodeRaw, a.PodRaw = make([]int64, rows.Nodes*RawNode), make([]int64, n*RawPod)
	}
	return a
}

// RawNode and RawPod are the numbers of integers in NodeRaw and PodRaw.
const (
	RawPod  = 5
	RawNode = 2 * RawPod
)

// Counts are numbers of rows.
type Counts struct{ Candidates, Nodes, Zones, Groups int }

func (c Counts) plus(o Counts) Counts {
	return Counts{c.Candidates + o.Candidates, c.Nodes + o.Nodes, c.Zones + o.Zones, c.Groups + o.Groups}
}

// ErrRoom means that the arrays have too few rows. The step is done, Rows says what is needed, and Observe with more room
// has the observation.
var ErrRoom = errors.New("the arrays have too few rows")

// graph reports whether the observation has rows that only the encoder knows the number of.
func (a *Arrays) graph() bool { return a.NodeX != nil || a.GroupX != nil }

// check returns an error unless the arrays have the lengths that n environments with these features need.
func (a *Arrays) check(n int, w feature.Widths) error {
	r, err := &a.Results, error(nil)
	want := func(name string, got, need int, optional bool) {
		if got != need && (!optional || got != 0) && err == nil {
			err = fmt.Errorf("array %s has %d elements, want %d", name, got, need)
		}
	}
	for name, got := range map[string]int{
		"reward": len(r.Reward), "terminated": len(r.Terminated), "objective": len(r.Objective), "unscheduled": len(r.Unscheduled),
		"waited": len(r.Waited), "decisions": len(r.Decisions), "seed": len(r.Seed),
	} {
		want(name, got, n, false)
	}
	if a.Slots < 0 {
		return fmt.Errorf("%d slots", a.Slots)
	}
	rows := len(a.Mask)
	if a.Slots > 0 {
		want("action_mask", rows, n*a.Slots, false)
		want("candidate_offsets", len(a.CandidateOffsets), 0, false)
	} else {
		want("candidate_offsets", len(a.CandidateOffsets), n+1, false)
	}
	want("pod_x", len(a.PodX), n*w.Pod, true)
	want("cluster_x", len(a.ClusterX), n*w.Cluster, len(a.PodX) == 0)
	want("candidate_x", len(a.CandidateX), rows*w.Candidate, len(a.PodX) == 0)
	want("candidate_node", len(a.CandidateNode), rows, true)
	a.checkGraph(n, w, want)
	return err
}

func (a *Arrays) checkGraph(n int, w feature.Widths, want func(name string, got, need int, optional bool)) {
	nodes := len(a.NodeZone)
	if nodes == 0 {
		nodes = len(a.NodeRaw) / RawNode
	}
	want("node_x", len(a.NodeX), len(a.NodeZone)*w.Node, false)
	want("node_raw", len(a.NodeRaw), nodes*RawNode, true)
	want("pod_raw", len(a.PodRaw), n*RawPod, len(a.NodeRaw) == 0)
	want("node_offsets", len(a.NodeOffsets), n+1, nodes == 0)
	want("zone_offsets", len(a.ZoneOffsets), n+1, nodes == 0)
	want("group_x", len(a.GroupX), len(a.GroupNode)*w.Group, false)
	want("group_weight", len(a.GroupWeight), len(a.GroupNode), false)
}

// fits reports whether the arrays have room for so many rows.
func (a *Arrays) fits(rows Counts) bool {
	nodes := rows.Nodes
	return (a.Slots > 0 || rows.Candidates <= len(a.Mask)) && (a.NodeX == nil || nodes <= len(a.NodeZone)) &&
		(a.NodeRaw == nil || nodes*RawNode <= len(a.NodeRaw)) &&
		(a.GroupX == nil || rows.Groups <= len(a.GroupNode))
}

// cut returns the rows from one to another of an array with rows of this width.
func cut[T any](s []T, from, to, width int) []T { return s[from*width : to*width : to*width] }

// write writes the results and the observation of environment i.
func (v *Vector) write(i int) error {
	w, a, at := v.worlds[i], v.arrays, v.offsets[i]
	r := &a.Results
	r.Reward[i], r.Terminated[i], r.Unscheduled[i], r.Decisions[i], r.Seed[i] = w.reward, 0, -1, w.decisions, w.seed
	r.Objective[i], r.Waited[i] = w.env.Cost(), int64(w.env.Waited())
	if w.ended {
		r.Terminated[i] = 1
	}
	if w.over && w.outcome != nil {
		r.Objective[i], r.Unscheduled[i] = w.outcome.Cost, int64(w.outcome.Unscheduled)
	}
	first, rows := at.Candidates, len(w.mask)
	if a.Slots > 0 {
		first, rows = i*a.Slots, a.Slots
	}
	mask := a.Mask[first : first+rows]
	clear(mask[copy(mask, w.mask):])
	if a.CandidateNode != nil {
		w.writeNodes(a.CandidateNode[first:first+rows], int64(at.Nodes))
	}
	if a.PodX != nil {
		v.writeFeatures(i, first, rows)
	}
	if a.graph() {
		v.writeGraph(i)
	}
	if a.NodeRaw != nil {
		w.writeRaw(a.NodeRaw[at.Nodes*RawNode:], a.PodRaw[i*RawPod:(i+1)*RawPod])
	}
	return nil
}

// writeNodes writes the row of each candidate's node, and the environment's first node for rows that are no candidates.
func (w *world) writeNodes(to []int64, first int64) {
	for k := range to {
		to[k] = first
	}
	if w.over {
		return
	}
	for k, row := range w.env.Candidates() {
		to[k] = first + int64(row)
	}
}

// writeFeatures writes the features of environment i: the encoder writes them there unless it has encoded the decision before.
func (v *Vector) writeFeatures(i, first, rows int) {
	w, a := v.worlds[i], v.arrays
	pod, cl := cut(a.PodX, i, i+1, v.widths.Pod), cut(a.ClusterX, i, i+1, v.widths.Cluster)
	candidates := cut(a.CandidateX, first, first+rows, v.widths.Candidate)
	switch g := w.graph; {
	case w.over:
		clear(pod)
		clear(cl)
		clear(candidates)
	case w.encoded == w.decision:
		copy(pod, g.PodX)
		copy(cl, g.ClusterX)
		clear(candidates[copy(candidates, g.CandidateX):])
	default:
		podX, clusterX, candidateX := g.PodX, g.ClusterX, g.CandidateX
		g.PodX, g.ClusterX, g.CandidateX = pod, cl, candidates
		w.encoder.Encode(w.env.Snapshot(), w.env.Pending(), w.env.Candidates())
		g.PodX, g.ClusterX, g.CandidateX = podX, clusterX, candidateX
	}
}

// writeGraph writes the nodes and groups of environment i.
func (v *Vector) writeGraph(i int) {
	w, a, at, end := v.worlds[i], v.arrays, v.offsets[i], v.offsets[i+1]
	if w.over {
		if a.NodeX != nil {
			clear(cut(a.NodeX, at.Nodes, end.Nodes, v.widths.Node))
			a.NodeZone[at.Nodes] = int64(at.Zones)
		}
		return
	}
	g := w.graph
	if a.NodeX != nil {
		copy(a.NodeX[at.Nodes*v.widths.Node:], g.NodeX)
		for k, z := range g.Zone {
			a.NodeZone[at.Nodes+k] = int64(at.Zones) + int64(z)
		}
	}
	if a.GroupX != nil {
		next := at.Groups
		for k := range g.Groups {
			copy(a.GroupX[next*v.widths.Group:], g.Groups[k].X)
			copy(a.GroupWeight[next:], g.Groups[k].Weight)
			for range g.Groups[k].Weight {
				a.GroupNode[next] = int64(at.Nodes + k)
				next++
			}
		}
	}
}

// writeRaw writes the integers behind the features.
func (w *world) writeRaw(nodes, pod []int64) {
	if w.over {
		clear(nodes[:RawNode])
		clear(pod)
		return
	}
	for k, n := range w.env.Snapshot().Nodes {
		amounts(nodes[k*RawNode:], n.Allocatable)
		amounts(nodes[k*RawNode+RawPod:], n.Requested)
	}
	amounts(pod, w.env.Pending().Requests)
}

func amounts(out []int64, r cluster.Resources) {
	out[0], out[1], out[2], out[3], out[4] = r.MilliCPU, r.Memory, r.GPU, r.GPUMilli, r.Pods
}

// world is one environment of a Vector.
type world struct {
	env       *sim.Env
	encoder   *encode.Encoder                        // nil without features
	watch     func(choice int, on cluster.DeviceSet) // Options.Watch; may be nil
	feasible  bool                                   // every candidate may be chosen
	mask      []uint8                                // by candidate: 1 if it may be chosen
	chosen    int64                                  // the action that Choose returned for the decision at hand; -1: none
	decision  int64                                  // number of the decision at hand since the start
	encoded   int64                                  // number of the decision that graph holds
	graph     *graph.Graph                           // the encoder's
	seed      uint64                                 // of this episode
	next      uint64                                 // of the next episode
	seeded    bool                                   // Reset has said which episodes to play
	skip      bool                                   // leave out episodes in which nothing can be placed
	over      bool                                   // the episode has ended, or none has begun
	ended     bool                                   // the last step ended the episode
	reward    float64                                // of the last step
	decisions int64                                  // of the episode
	outcome   *sim.Outcome                           // of the last episode that ended
}

func newWorld(env *sim.Env, o Options, i int) *world {
	w := &world{env: env, over: true, feasible: o.Feasible, mask: []uint8{1}}
	if o.Watch != nil {
		w.watch = func(choice int, on cluster.DeviceSet) { o.Watch(i, env, choice, on) }
	}
	if o.Layout != nil {
		w.encoder = encode.New(o.Layout)
		w.graph = w.encoder.Graph()
	}
	return w
}

// emptyEpisodes is how many episodes in a row may be without any placement.
const emptyEpisodes = 100

// begin starts the next episode.
func (w *world) begin() error {
	for range emptyEpisodes {
		w.seed = w.next
		w.next++
		w.decisions, w.reward, w.ended, w.over = 0, 0, false, true
		if err := w.env.Reset(w.seed); err != nil {
			w.seeded = false
			return fmt.Errorf("seed %d: %w", w.seed, err)
		}
		if w.over = w.env.Done(); w.over && w.skip {
			continue
		}
		if w.encoder != nil {
			w.encoder.Forget()
		}
		if w.over {
			w.finish()
		}
		w.look()
		return nil
	}
	w.seeded = false
	return fmt.Errorf("seed %d: nothing could be placed in %d episodes in a row: make the nodes larger or the pods smaller", w.seed,
		emptyEpisodes)
}

// step places the pod at hand.
func (w *world) step(choice int) {
	node := w.env.Snapshot().Nodes[w.env.Candidates()[choice]]
	on := node.ChooseDevices(w.env.Pending().Requests)
	if w.watch != nil {
		w.watch(choice, on)
	}
	w.reward = w.env.StepOn(choice, on)
	w.decisions++
	if w.env.Done() {
		w.over, w.ended = true, true
		w.finish()
	}
	w.look()
}

func (w *world) finish() {
	if w.watch != nil {
		w.watch(-1, 0)
	}
	w.outcome = new(w.env.Outcome())
}

var (
	errUnseeded = errors.New("no episode has begun: call reset first")
	errMasked   = errors.New("is masked: the pod's preferences leave other nodes")
)

// allows returns an error if the action may not be taken. Any action will do once the episode is over.
func (w *world) allows(action int64) error {
	switch {
	case !w.seeded:
		return errUnseeded
	case w.over:
		return nil
	case action < 0 || action >= int64(len(w.mask)):
		return fmt.Errorf("seed %d: action %d is none of the %d candidates", w.seed, action, len(w.mask))
	case w.mask[action] == 0 && action != w.chosen:
		return fmt.Errorf("seed %d: action %d %w", w.seed, action, errMasked)
	}
	return nil
}

// look finds out which candidates the decision at hand has.
func (w *world) look() {
	w.decision++
	w.chosen = -1
	if w.over {
		w.mask = append(w.mask[:0], 1)
		return
	}
	n := len(w.env.Candidates())
	if cap(w.mask) < n {
		w.mask = make([]uint8, 2*n)
	}
	w.mask = w.mask[:n]
	if w.feasible || w.env.Preferences() == nil {
		for i := range w.mask {
			w.mask[i] = 1
		}
		return
	}
	clear(w.mask)
	for _, i := range w.env.Preferred() {
		w.mask[i] = 1
	}
}

// encode encodes the decision at hand into the encoder's own memory.
func (w *world) encode() {
	if w.over || w.encoder == nil || w.encoded == w.decision {
		return
	}
	w.encoder.Encode(w.env.Snapshot(), w.env.Pending(), w.env.Candidates())
	w.encoded = w.decision
}

// rows returns the numbers of the environment's rows. Those of groups are known once the decision is encoded.
func (w *world) rows(encoded bool) Counts {
	c := Counts{Candidates: len(w.mask), Nodes: 1, Zones: 1}
	if w.over {
		return c
	}
	c.Nodes = len(w.env.Nodes())
	if !encoded {
		return c
	}
	c.Zones = w.graph.Zones
	for i := range w.graph.Groups {
		c.Groups += len(w.graph.Groups[i].Weight)
	}
	return c
}
