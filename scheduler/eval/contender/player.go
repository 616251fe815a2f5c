package contender

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"

	"gnnsched/gnn/feature"
	"gnnsched/internal/cluster"
	"gnnsched/internal/exit"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/sim"
	"gnnsched/scheduler/sim/vector"
)

// pythonPrefix begins the names of these policies.
const pythonPrefix = "python"

// most is how many seeds advance together.
const most = 256

// PythonFile returns the policy in a file.
func PythonFile(file string) (eval.Contender, error) {
	name := pythonPrefix + ":" + file
	path, err := filepath.Abs(file)
	if err == nil {
		_, err = os.Stat(path)
	}
	if err != nil {
		return eval.Contender{}, exit.New(exit.Usage, fmt.Errorf("--policies: %s: %w", name, err), "docs/how-to/python.md shows a policy")
	}
	alone := func(policy.Setting) policy.Policy { return outside(name) }
	return eval.Contender{Name: name, Network: true, New: alone, PlayAll: func(ctx context.Context, all eval.Batch) ([]sim.Outcome, error) {
		out, err := playAll(ctx, path, all)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		return out, nil
	}}, nil
}

// outside is the policy where decisions are made one at a time, as on clusters. It refuses.
type outside string

func (o outside) Name() string { return string(o) }

func (o outside) Score(*cluster.Snapshot, *cluster.Pod, []int32, []float32) error {
	return exit.Usagef("%s: only gnnsched eval asks policies in Python", string(o))
}

func playAll(ctx context.Context, path string, all eval.Batch) (out []sim.Outcome, err error) {
	p, wants, err := start(ctx, path)
	if err != nil {
		return nil, err
	}
	defer p.close()
	for seeds := range slices.Chunk(all.Seeds, most) {
		r := &round{pipe: p, wants: wants, batch: all, seeds: seeds}
		if err := r.play(ctx); err != nil {
			return nil, err
		}
		out = append(out, r.outcomes...)
	}
	return out, nil
}

// round plays some seeds together.
type round struct {
	*pipe
	wants    wants
	batch    eval.Batch
	seeds    []uint64
	layout   *feature.Layout
	envs     *vector.Vector
	arrays   *vector.Arrays
	shape    vector.Shape
	actions  []int64
	outcomes []sim.Outcome
}

func (r *round) play(ctx context.Context) error {
	if err := r.open(); err != nil {
		return err
	}
	n := len(r.seeds)
	r.outcomes, r.actions = make([]sim.Outcome, n), make([]int64, n)
	over := make([]bool, n)
	names := map[string][]string{}
	if r.layout != nil {
		names = r.layout.Names()
	}
	begin := map[string]any{"scenario": r.batch.Scenario.Name, "objective": r.batch.Scenario.Objective.Name(), "seeds": r.seeds,
		"names": names}
	if _, err := r.ask(ctx, map[string]any{"begin": begin}); err != nil {
		return err
	}
	err := r.grown(r.envs.Reset(vector.Start{Seeds: r.seeds}, r.arrays))
	for left := n; err == nil; {
		for i := range r.seeds {
			if over[i] || r.arrays.Unscheduled[i] < 0 {
				continue
			}
			if r.outcomes[i], err = r.envs.Outcome(i); err != nil {
				return err
			}
			over[i] = true
			left--
			r.batch.Played()
		}
		if left == 0 {
			return nil
		}
		if err = r.decide(ctx); err == nil {
			err = r.grown(r.envs.Step(r.actions, r.arrays))
		}
	}
	return err
}

// open makes the environments and the arrays.
func (r *round) open() (err error) {
	s := r.batch.Scenario
	o := vector.Options{Count: len(r.seeds), Watch: r.watch()}
	r.shape = vector.Shape{Count: len(r.seeds), Graph: r.wants.Graph, Raw: r.wants.Raw}
	if len(r.wants.Features) > 0 {
		if r.layout, err = feature.NewLayout(r.wants.Features); err != nil {
			return err
		}
		o.Layout, r.shape.Widths = r.layout, r.layout.Widths
	} else if r.wants.Graph {
		return errors.New("OBSERVATION: graph needs features")
	}
	if r.envs, err = vector.New(s.Config, o); err != nil {
		return err
	}
	rows := len(r.seeds) * r.envs.Slots()
	r.shape.Rows = vector.Counts{Candidates: rows, Nodes: rows, Groups: 4 * rows, Paths: 4 * rows}
	r.arrays = vector.NewArrays(r.shape)
	return nil
}

// watch returns what passes the choices on to the observers of the seeds; nil if there are none.
func (r *round) watch() func(i int, env *sim.Env, choice int, on cluster.DeviceSet) {
	if r.batch.Observe == nil {
		return nil
	}
	observers := make([]eval.Observer, len(r.seeds))
	for i, seed := range r.seeds {
		observers[i] = r.batch.Observe(seed)
	}
	return func(i int, env *sim.Env, choice int, on cluster.DeviceSet) {
		switch o := observers[i]; {
		case o == nil:
		case choice < 0:
			o.Ended(env)
		default:
			o.Decided(env, eval.Choice{Candidate: choice, Devices: on})
		}
	}
}

// grown makes larger arrays, if they have no room for the observation.
func (r *round) grown(err error) error {
	if !errors.Is(err, vector.ErrRoom) {
		return err
	}
	rows, need := &r.shape.Rows, r.arrays.Rows
	rows.Groups, rows.Paths = max(rows.Groups, 2*need.Groups), max(rows.Paths, 2*need.Paths)
	r.arrays = vector.NewArrays(r.shape)
	return r.envs.Observe(r.arrays)
}

// ask sends a header with arrays and returns the answer. Its errors name the seed, or the seeds that were played.
func (r *round) ask(ctx context.Context, header map[string]any, arrays ...[]byte) (answer, error) {
	sent := make(chan error, 1)
	go func() { sent <- r.send(header, arrays...) }() // a policy that hangs or has ended reads nothing
	a, err := r.next(ctx)
	if err == nil {
		err = <-sent
	}
	if err == nil && a.Error != "" {
		err = errors.New(a.Error)
	}
	if err == nil {
		return a, nil
	}
	who := fmt.Sprintf("seed %d", r.seeds[0])
	if i := a.Environment; i != nil && *i >= 0 && *i < len(r.seeds) {
		who = fmt.Sprintf("seed %d", r.seeds[*i])
	} else if len(r.seeds) > 1 {
		who = fmt.Sprintf("seeds %d to %d", r.seeds[0], r.seeds[len(r.seeds)-1])
	}
	return a, fmt.Errorf("%s, decision %d: %w", who, slices.Max(r.arrays.Decisions)+1, err)
}

// decide sets the actions of all environments.
func (r *round) decide(ctx context.Context) error {
	list, arrays := r.encode()
	a, err := r.ask(ctx, map[string]any{"arrays": list}, arrays...)
	if err != nil {
		return err
	}
	want := r.arrays.Rows.Candidates
	switch a.Kind {
	case "actions":
		want = len(r.seeds)
	case "scores":
	default:
		return fmt.Errorf("seed %d: the policy answered %s: want floats (a score for each candidate) or integers (an action for "+
			"each environment)", r.seeds[0], a.Kind)
	}
	if len(a.Shape) != 1 || a.Shape[0] != want || len(a.data) != 8*want {
		return fmt.Errorf("seed %d: the policy answered %s of shape %v, want [%d]", r.seeds[0], a.Kind, a.Shape, want)
	}
	if a.Kind == "actions" {
		for i := range r.actions {
			r.actions[i] = int64(binary.LittleEndian.Uint64(a.data[8*i:]))
		}
		return nil // Step refuses masked ones, and names the seed
	}
	for i := range r.actions {
		if r.actions[i], err = r.best(i, a.data); err != nil {
			return err
		}
	}
	return nil
}

// best returns the first allowed candidate of environment i with the best score.
func (r *round) best(i int, scores []byte) (int64, error) {
	best, top := int64(-1), 0.0
	first := r.arrays.CandidateOffsets[i]
	for c := first; c < r.arrays.CandidateOffsets[i+1]; c++ {
		score := math.Float64frombits(binary.LittleEndian.Uint64(scores[8*c:]))
		if math.IsNaN(score) {
			return 0, fmt.Errorf("seed %d: the score of candidate %d is no number", r.seeds[i], c-first)
		}
		if r.arrays.Mask[c] == 1 && (best < 0 || score > top) {
			best, top = c-first, score
		}
	}
	return best, nil
}
