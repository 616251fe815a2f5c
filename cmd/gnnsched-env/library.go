// Command gnnsched-env is the simulator as a C library: package vector for other languages. It is built with
//
//	go build -buildmode=c-shared -o libgnnsched.2.so ./cmd/gnnsched-env
//
// python/gnnsched is its Python side. Only export.go needs cgo; the rest is plain Go, so that it can be tested and fuzzed without a C
// compiler.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"unsafe"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/feature"
	"gnnsched/gnn/graph"
	"gnnsched/gnn/infer"
	"gnnsched/internal/each"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/objective"
	"gnnsched/scheduler/sim"
	"gnnsched/scheduler/sim/vector"
)

// abi changes with the interface. The name of the library ends in it.
const abi = 2

// What play does.
const (
	observe         = iota // write what the last step or reset wrote
	step                   // one action for each environment
	resetOn                // the next episode of each environment
	resetTraining          // seed s stands for episodes s+1 of training, which no evaluation plays
	resetEvaluation        // seeds of episodes, as gnnsched eval has them
)

// What play returns. After failed, arguments.message says why.
const (
	ok     = 0
	grow   = 1  // the step is done; observe with more room has the observation
	failed = -1 // a wrong argument, or the simulator's error
	closed = -2
)

// opened is the environments of a handle.
type opened struct {
	*vector.Vector
	count  int
	widths feature.Widths
}

var (
	handles sync.Map // from a number to its *opened
	last    atomic.Int64
)

// find returns the environments of a handle.
func find(handle int64) (*opened, error) {
	if v, ok := handles.Load(handle); ok {
		return v.(*opened), nil
	}
	return nil, vector.ErrClosed
}

// play is gnnsched_env_play.
func play(handle int64, what int32, a *arguments) (status int32) {
	if a == nil {
		return failed
	}
	if err := a.check(); err != nil {
		if a.size >= int64(len(a.message))+8 {
			a.say(err)
		}
		return failed
	}
	var v *vector.Arrays
	err := guarded(func() (err error) {
		o, err := find(handle)
		if err != nil {
			return err
		}
		v = a.arrays(o.count, o.widths)
		return o.play(what, a, v)
	})
	if v != nil {
		r := v.Rows
		a.candidates, a.nodes, a.zones, a.groups = int64(r.Candidates), int64(r.Nodes), int64(r.Zones), int64(r.Groups)
	}
	switch {
	case err == nil:
		return ok
	case errors.Is(err, vector.ErrRoom):
		return grow
	case errors.Is(err, vector.ErrClosed):
		status = closed
	default:
		status = failed
	}
	a.say(err)
	return status
}

func (o *opened) play(what int32, a *arguments, v *vector.Arrays) error {
	switch what {
	case observe:
		return o.Observe(v)
	case step:
		actions, err := a.actionsOf(o.count)
		if err != nil {
			return err
		}
		return o.Step(actions, v)
	case resetOn, resetTraining, resetEvaluation:
		s, err := a.startOf(o.count, what)
		if err != nil {
			return err
		}
		return o.Reset(s, v)
	}
	return fmt.Errorf("there is no operation %d", what)
}

// guarded turns a panic into an error: it would end the caller's process.
func guarded(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("a fault of the library: %v", p)
		}
	}()
	return f()
}

// episodeOf returns the seed of the first episode of an environment.
func episodeOf(seed uint64, what int32) (uint64, error) {
	if what == resetEvaluation {
		return seed, sim.CheckEvaluationSeeds(seed, 1)
	}
	return sim.TrainingEpisode(seed+1, 1), sim.CheckTrainingSeed(seed + 1)
}

// request is a question to gnnsched_env_call.
type request struct {
	Op     string `json:"op"` // open, close, outcome, choose, checkpoint or scores
	Handle int64  `json:"handle"`

	Environment int `json:"environment"` // outcome

	Scores [][]float64 `json:"scores"` // choose: of each environment's candidates; those after them are left out

	File string `json:"file"` // scores: a checkpoint

	Scenario  string   `json:"scenario"` // open: a built-in scenario or a YAML file
	Objective string   `json:"objective"`
	WaitCost  *float64 `json:"waitCost"`
	Count     int      `json:"count"`
	Threads   int      `json:"threads"`
	Features  []string `json:"features"` // none: no features
	Feasible  bool     `json:"feasible"`
	Autoreset bool     `json:"autoreset"`

	Architecture checkpoint.Architecture `json:"architecture"` // checkpoint: the parameters that the file must have
}

// call is gnnsched_env_call.
func call(text string) string {
	var answer any
	err := guarded(func() (err error) {
		var r request
		d := json.NewDecoder(strings.NewReader(text))
		d.DisallowUnknownFields()
		if err := d.Decode(&r); err != nil {
			return fmt.Errorf("request: %w", err)
		}
		switch r.Op {
		case "open":
			answer, err = r.open()
		case "checkpoint":
			answer, err = r.checkpoint()
		case "outcome", "choose", "scores":
			var o *opened
			if o, err = find(r.Handle); err != nil {
				return err
			}
			switch r.Op {
			case "outcome":
				answer, err = o.Outcome(r.Environment)
			case "choose":
				answer, err = o.choose(r.Scores)
			case "scores":
				answer, err = o.scores(r.File)
			}
		case "close":
			o, loaded := handles.LoadAndDelete(r.Handle)
			if !loaded {
				return vector.ErrClosed
			}
			err = o.(*opened).Close()
		default:
			err = fmt.Errorf("there is no operation %q", r.Op)
		}
		return err
	})
	out, failure := json.Marshal(answer)
	if err = errors.Join(err, failure); err != nil {
		out, _ = json.Marshal(map[string]any{"error": err.Error(), "closed": errors.Is(err, vector.ErrClosed)}) // strings and a bool
	}
	return string(out)
}

// description is the answer to open.
type description struct {
	Handle      int64               `json:"handle"`
	Scenario    string              `json:"scenario"`
	About       string              `json:"about"`
	Objective   string              `json:"objective"`
	Hash        string              `json:"hash"`
	OneWorkload bool                `json:"oneWorkload"`
	Slots       int                 `json:"slots"`
	Schema      string              `json:"schema,omitempty"`
	Names       map[string][]string `json:"names"`
}

func (r *request) open() (*description, error) {
	found, err := eval.ChooseScenarios([]string{r.Scenario}, "")
	if err != nil {
		return nil, err
	}
	if len(found) != 1 {
		return nil, fmt.Errorf("%s has %d scenarios, want one", r.Scenario, len(found))
	}
	s := found[0]
	if r.Objective != "" {
		if s.Objective, err = objective.Parse(r.Objective); err != nil {
			return nil, err
		}
	}
	if r.WaitCost != nil {
		s.WaitCost = *r.WaitCost
	}
	o := vector.Options{Count: r.Count, Threads: r.Threads, Feasible: r.Feasible, Autoreset: r.Autoreset}
	d := &description{Scenario: s.Name, About: s.About, Objective: s.Objective.Name()}
	v := &opened{count: r.Count}
	if len(r.Features) > 0 {
		if o.Layout, err = feature.NewLayout(r.Features); err != nil {
			return nil, err
		}
		v.widths, d.Schema, d.Names = o.Layout.Widths, o.Layout.Hash(), o.Layout.Names()
	}
	if d.Hash, err = s.Hash(); err != nil {
		return nil, err
	}
	env, err := sim.New(s.Config)
	if err != nil {
		return nil, err
	}
	d.OneWorkload = env.FixedWorkload()
	if v.Vector, err = vector.New(s.Config, o); err != nil {
		return nil, err
	}
	d.Slots, d.Handle = v.Slots(), last.Add(1)
	handles.Store(d.Handle, v)
	return d, nil
}

// checkpoint returns the schema and the parameters of a network.
func (r *request) checkpoint() (any, error) {
	if err := r.Architecture.Validate(); err != nil {
		return nil, err
	}
	type param struct {
		Name  string `json:"name"`
		Shape []int  `json:"shape"`
	}
	params := each.Map(r.Architecture.Params(), func(p checkpoint.Param) param { return param{p.Name, p.Shape} })
	return map[string]any{"schema": r.Architecture.Schema(), "params": params}, nil
}

// choose returns the action that gnnsched eval takes of a policy with these scores, for each environment; 0 where the episode is over.
func (o *opened) choose(scores [][]float64) (actions []int64, err error) {
	if len(scores) != o.count {
		return nil, fmt.Errorf("want scores for each of %d environments, not %d", o.count, len(scores))
	}
	for i, own := range scores {
		action := o.Choose(i, func(env *sim.Env) int {
			n := len(env.Candidates())
			if len(own) < n {
				err = fmt.Errorf("environment %d: %d scores for %d candidates", i, len(own), n)
				return 0
			}
			return eval.Take(env, own[:n])
		})
		if err != nil {
			return nil, err
		}
		actions = append(actions, action)
	}
	return actions, nil
}

// scores returns what the network in a file scores the candidates of each decision at hand; an ended episode has one score, 0.
func (o *opened) scores(file string) (out [][]float32, err error) {
	c, err := checkpoint.Load(file)
	if err != nil {
		return nil, err
	}
	net, err := infer.New(c)
	if err != nil {
		return nil, err
	}
	return out, o.Graphs(func(g *graph.Graph) error {
		if g == nil {
			out = append(out, []float32{0})
			return nil
		}
		scored, err := net.NewSession().Score(g, nil)
		out = append(out, slices.Clone(scored))
		return err
	})
}

// arguments are a caller's arrays in C: int64_t, char[] and pointers, one after another. No function keeps a pointer after it returns. An
// array of an observation whose pointer is NULL is left out. package vector documents the arrays.
type arguments struct {
	size    int64 // of this struct in bytes
	message [512]byte

	slots                                 int64 // padded: rows of each environment; 0: ragged
	roomCandidates, roomNodes, roomGroups int64 // rows for which there is room
	candidates, nodes, zones, groups      int64 // written: rows in use

	actions   *int64
	seeds     *uint64
	resetMask *uint8

	reward                         *float64
	terminated                     *uint8
	objective                      *float64
	unscheduled, waited, decisions *int64
	seed                           *uint64

	podX, clusterX          *float32
	candidateOffsets        *int64
	candidateX              *float32
	candidateNode           *int64
	mask                    *uint8
	nodeOffsets, zoneOffset *int64
	nodeX                   *float32
	nodeZone                *int64
	groupX, groupWeight     *float32
	groupNode               *int64
	nodeRaw, podRaw         *int64
}

// maxRows bounds the rows of an array, so that no length overflows.
const maxRows = 1 << 32

// check returns an error unless the struct has the form that this library knows.
func (a *arguments) check() error {
	if want := int64(unsafe.Sizeof(*a)); a.size != want {
		return fmt.Errorf("the arguments have %d bytes, want %d: library and package are of different versions", a.size, want)
	}
	for _, n := range []int64{a.slots, a.roomCandidates, a.roomNodes, a.roomGroups} {
		if n < 0 || n > maxRows {
			return fmt.Errorf("an array has %d rows", n)
		}
	}
	return nil
}

// say writes a message that the caller reads after an error.
func (a *arguments) say(err error) {
	n := copy(a.message[:len(a.message)-1], err.Error())
	a.message[n] = 0
}

// slice makes a slice of the caller's memory; nil of NULL or without elements.
func slice[T any](p *T, rows, width int64) []T {
	if p == nil || rows == 0 || width == 0 {
		return nil
	}
	return unsafe.Slice(p, rows*width)
}

// arrays returns the caller's arrays for n environments with features of these widths.
func (a *arguments) arrays(count int, w feature.Widths) *vector.Arrays {
	n, c := int64(count), a.roomCandidates
	if a.slots > 0 {
		c = n * a.slots
	}
	return &vector.Arrays{
		Slots: int(a.slots),
		Results: vector.Results{
			Reward: slice(a.reward, n, 1), Terminated: slice(a.terminated, n, 1), Objective: slice(a.objective, n, 1),
			Unscheduled: slice(a.unscheduled, n, 1), Waited: slice(a.waited, n, 1), Decisions: slice(a.decisions, n, 1), Seed: slice(a.seed, n, 1),
		},
		PodX: slice(a.podX, n, int64(w.Pod)), ClusterX: slice(a.clusterX, n, int64(w.Cluster)),
		CandidateOffsets: slice(a.candidateOffsets, n+1, 1), CandidateX: slice(a.candidateX, c, int64(w.Candidate)),
		CandidateNode: slice(a.candidateNode, c, 1), Mask: slice(a.mask, c, 1),
		NodeOffsets: slice(a.nodeOffsets, n+1, 1), ZoneOffsets: slice(a.zoneOffset, n+1, 1),
		NodeX: slice(a.nodeX, a.roomNodes, int64(w.Node)), NodeZone: slice(a.nodeZone, a.roomNodes, 1),
		GroupX: slice(a.groupX, a.roomGroups, int64(w.Group)), GroupWeight: slice(a.groupWeight, a.roomGroups, 1),
		GroupNode: slice(a.groupNode, a.roomGroups, 1),
		NodeRaw:   slice(a.nodeRaw, a.roomNodes, vector.RawNode), PodRaw: slice(a.podRaw, n, vector.RawPod),
	}
}

var errMissing = errors.New("an array is missing")

// actionsOf returns the actions of n environments.
func (a *arguments) actionsOf(n int) ([]int64, error) {
	if a.actions == nil {
		return nil, errMissing
	}
	return slice(a.actions, int64(n), 1), nil
}

// startOf returns the start that the caller asks for.
func (a *arguments) startOf(n int, what int32) (vector.Start, error) {
	s := vector.Start{Skip: what == resetTraining}
	s.Mask = append(s.Mask, each.Map(slice(a.resetMask, int64(n), 1), func(m uint8) bool { return m != 0 })...)
	if what == resetOn {
		return s, nil
	}
	if a.seeds == nil {
		return s, errMissing
	}
	for i, seed := range slice(a.seeds, int64(n), 1) {
		episode, err := episodeOf(seed, what)
		if err != nil {
			return s, fmt.Errorf("environment %d: %w", i, err)
		}
		s.Seeds = append(s.Seeds, episode)
	}
	return s, nil
}
