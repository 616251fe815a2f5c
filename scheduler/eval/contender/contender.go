package contender

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/feature"
	"gnnsched/gnn/infer"
	"gnnsched/internal/choice"
	"gnnsched/internal/cluster"
	"gnnsched/internal/each"
	"gnnsched/internal/exit"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/objective"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/policy/heuristic"
	"gnnsched/scheduler/policy/linear"
	"gnnsched/scheduler/policy/neural"
	"gnnsched/scheduler/policy/stock"
	"gnnsched/scheduler/server"
	"gnnsched/scheduler/sim"
	"gnnsched/scheduler/sim/vector"
)

// Names lists the policies for any cluster: the heuristics that score by requests, then the shipped networks. The first
// one is the usual baseline.
func Names() []string {
	return slices.Concat(heuristic.Names(), checkpoint.ShippedFor(checkpoint.KindsGraph), checkpoint.ShippedFor(checkpoint.ClusterGraph))
}

// List returns the policies with the given names, Names if there are none, and those in the
// files; a file is given as FILE or NAME=FILE. No two of them have the same name.
func List(names, files []string) ([]eval.Contender, error) {
	if len(names) == 0 {
		names = Names()
	}
	var out []eval.Contender
	for i, n := range names {
		x, err := Named(n)
		if err != nil {
			return nil, termHint(names, i, err)
		}
		out = append(out, x)
	}
	for _, f := range files {
		x, err := load(f)
		if err != nil {
			return nil, err
		}
		out = append(out, x)
	}
	seen := map[string]bool{eval.Optimum: true} // scenarios give this name to their optimum
	for i, x := range out {
		if seen[x.Name] {
			hint := "name each policy once"
			if i >= len(names) {
				hint = "give the checkpoint a name: --checkpoint NAME=FILE"
			}
			return nil, exit.New(exit.Usage, fmt.Errorf("two policies are called %q", x.Name), hint)
		}
		seen[x.Name] = true
	}
	return out, nil
}

// termHint gives the error of names[at] a better hint if a comma before or after it seems to join terms of an objective: a comma
// separates policies, and a plus sign terms.
func termHint(names []string, at int, err error) error {
	for _, second := range []int{at, at + 1} {
		if second == 0 || second == len(names) {
			continue
		}
		first := names[second-1]
		if _, of, ok := strings.Cut(first, ":"); ok && likeTerms(of) && likeTerms(names[second]) {
			return exit.New(exit.Usage, err,
				fmt.Sprintf("a comma separates policies; join the terms of an objective with a plus sign: %s+%s", first, names[second]))
		}
	}
	return err
}

// likeTerms tells whether a text is terms of an objective, which may be misspelt.
func likeTerms(text string) bool {
	for part := range strings.SplitSeq(text, "+") {
		name, _, _ := strings.Cut(part, "=")
		like := func(t objective.Term) bool { return t.Name() == name || choice.Closest(name, []string{t.Name()}) != "" }
		if !slices.ContainsFunc(objective.Terms, like) {
			return false
		}
	}
	return true
}

// Named returns the heuristic or the shipped network with that name, or what the name makes of one by its prefix.
func Named(name string) (eval.Contender, error) {
	x, err := named(name)
	return from(x, name), err
}

func named(name string) (eval.Contender, error) {
	if prefix, of, ok := strings.Cut(name, ":"); ok {
		switch {
		case bounds[prefix] != nil || prefix == running || prefix == firstFit || strings.HasPrefix(prefix, defragPrefix):
			x, err := Named(of)
			if err != nil {
				return x, err
			}
			return prefixed(prefix, x)
		case prefix == pythonPrefix:
			return PythonFile(of)
		case prefix == stockPrefix:
			return stockOf(name, of)
		}
	}
	h, err := heuristic.Find(name)
	switch {
	case err == nil:
		return eval.Contender{Name: h.Name, New: h.New, RandomTies: h.RandomTies}, nil
	case strings.Contains(name, ":"): // greedy:OBJECTIVE or linear:FILE; err describes the fault
		return eval.Contender{}, exit.New(exit.Usage, fmt.Errorf("--policies: %w", err), "")
	}
	if !slices.Contains(checkpoint.ShippedNames(), name) {
		return eval.Contender{}, exit.New(exit.Usage,
			fmt.Errorf("--policies: %w", choice.Unknown("policy", name,
				slices.Concat(Names(), heuristic.UsageNames(), heuristic.GPUNames(),
					checkpoint.ShippedFor(checkpoint.GPUGraph)))),
			"add a network of your own with --checkpoint")
	}
	c, err := checkpoint.Shipped(name)
	if err != nil {
		return eval.Contender{}, exit.New(exit.Checkpoint, err, "train one with gnntrain and give it with --checkpoint")
	}
	return network(name, c)
}

// Prefixes of policies: whose devices upstream's allocator chooses, and that count typical pods by the time for which they run.
const (
	firstFit = "first-fit"
	running  = "running"
)

// prefixed returns the contender PREFIX:POLICY: a bound, or a policy that differs by its prefix.
func prefixed(prefix string, x eval.Contender) (eval.Contender, error) {
	if x.Play != nil || x.PlayAll != nil {
		return x, exit.Usagef("--policies: %s:%s: %s is no policy", prefix, x.Name, x.Name)
	}
	of, name := x.New, prefix+":"+x.Name
	switch {
	case prefix == firstFit:
		x.New = func(s policy.Setting) policy.Policy { return policy.FirstFit(of(s)) }
	case prefix == running: // where lifetimes are not known, it is the policy itself
		x.New = func(s policy.Setting) policy.Policy {
			s.Typical = cmp.Or(s.Running, s.Typical)
			return of(s)
		}
	case x.Moves != nil:
		return x, exit.Usagef("--policies: %s:%s: pods move already with %s", prefix, x.Name, x.Name)
	case bounds[prefix] == nil:
		return defragmented(prefix, x)
	default:
		return eval.Contender{Name: name, New: of, Play: func(ctx context.Context, env *sim.Env, seed uint64) (sim.Outcome, error) {
			play := bounds[prefix](of(policy.Setting{Seed: seed, Typical: env.Typical()}), x.Ties(seed))
			return play(env, seed, ctx.Err)
		}}, nil
	}
	x.Name = name
	return x, nil
}

// stockPrefix is the prefix of kube-scheduler with the score plugins as a KubeSchedulerConfiguration has them.
const stockPrefix = "stock"

// stockOf returns kube-scheduler with the score plugins of a file. Episodes can share the policy: it has no
// state.
func stockOf(name, file string) (eval.Contender, error) {
	profile, err := server.ReadStockConfig(file)
	if err != nil {
		return eval.Contender{}, err
	}
	p, err := stock.New(name, profile)
	if err != nil {
		return eval.Contender{}, exit.New(exit.Usage, fmt.Errorf("%s: %w", file, err), "")
	}
	return eval.Contender{Name: name, New: func(policy.Setting) policy.Policy { return p }, RandomTies: true}, nil
}

// isStock reports whether a file is a KubeSchedulerConfiguration, by its name.
func isStock(path string) bool {
	return slices.Contains([]string{".yaml", ".yml"}, filepath.Ext(path))
}

// load reads a policy from a file. The argument is NAME=FILE, or FILE alone, which is then named
// after its base name, with or without running: before it. A file whose name ends in .json holds a table or linear weights,
// in .yaml or .yml a KubeSchedulerConfiguration, any other a checkpoint of a network.
func load(argument string) (eval.Contender, error) {
	x, err := loaded(argument)
	return fromFile(x, argument), err
}

func loaded(argument string) (eval.Contender, error) {
	if prefix, of, ok := strings.Cut(argument, ":"); ok && prefix == running {
		x, err := load(of)
		if err != nil {
			return x, err
		}
		return prefixed(running, x)
	}
	name, path := splitArgument(argument)
	if filepath.Ext(path) == ".json" {
		return weights(name, path)
	}
	if isStock(path) {
		return stockOf(name, path)
	}
	c, err := neural.Load(path)
	if errors.Is(err, fs.ErrNotExist) {
		return eval.Contender{}, exit.New(exit.Checkpoint, err, "check the path, or train one with gnntrain")
	}
	if err != nil {
		return eval.Contender{}, err
	}
	return network(name, c)
}

// splitArgument splits NAME=FILE.
func splitArgument(argument string) (name, path string) {
	if name, path, given := strings.Cut(argument, "="); given {
		return name, path
	}
	return strings.TrimSuffix(filepath.Base(argument), filepath.Ext(argument)), argument
}

// weights reads a linear policy.
func weights(name, path string) (eval.Contender, error) {
	w, err := linear.Load(path)
	switch {
	case err == nil:
		return eval.Contender{Name: name, New: func(policy.Setting) policy.Policy { return w.Named(w.Name()) }}, nil
	case errors.Is(err, fs.ErrNotExist):
		return eval.Contender{}, exit.New(exit.Checkpoint, fmt.Errorf("load weights: %w", err),
			"write the file with gnnsched tune, or correct its path")
	}
	return eval.Contender{}, exit.New(exit.Checkpoint, fmt.Errorf("it holds no linear weights: %w", err), "")
}

// network makes a policy of a checkpoint.
func network(name string, c *checkpoint.Checkpoint) (eval.Contender, error) {
	net, err := infer.New(c)
	if err != nil {
		return eval.Contender{}, exit.New(exit.Checkpoint, err, "")
	}
	return eval.Contender{Name: name, Network: true, New: func(s policy.Setting) policy.Policy {
		return neural.New(name, net, s.Typical)
	}}, nil
}

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
	r.shape.Rows = vector.Counts{Candidates: rows, Nodes: rows, Groups: 4 * rows}
	r.arrays = vector.NewArrays(r.shape)
	return nil
}

// watch returns what passes the choices on to the observers of the seeds; nil if there are none.
func (r *round) watch() func(i int, env *sim.Env, choice int, on cluster.DeviceSet) {
	if r.batch.Observe == nil {
		return nil
	}
	observers := each.Map(r.seeds, func(seed uint64) eval.Observer { return r.batch.Observe(seed) })
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
	r.shape.Rows.Groups = max(r.shape.Rows.Groups, 2*r.arrays.Rows.Groups)
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

// best returns the candidate of environment i that eval.Take returns.
func (r *round) best(i int, scores []byte) (int64, error) {
	first := r.arrays.CandidateOffsets[i]
	own := make([]float64, r.arrays.CandidateOffsets[i+1]-first)
	for c := range own {
		own[c] = math.Float64frombits(binary.LittleEndian.Uint64(scores[8*(first+int64(c)):]))
		if math.IsNaN(own[c]) {
			return 0, fmt.Errorf("seed %d: the score of candidate %d is no number", r.seeds[i], c)
		}
	}
	return r.envs.Choose(i, func(env *sim.Env) int { return eval.Take(env, own) }), nil
}
