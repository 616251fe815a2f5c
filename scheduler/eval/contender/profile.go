package contender

import (
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"gnnsched/internal/cluster"
	"gnnsched/internal/exit"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/eval/live"
	"gnnsched/scheduler/moves"
	"gnnsched/scheduler/objective"
	"gnnsched/scheduler/policy/heuristic"
	"gnnsched/scheduler/policy/linear"
	"gnnsched/scheduler/server"
	"gnnsched/scheduler/sim"
	"gnnsched/scheduler/sim/vector"
)

// Kubernetes is the policy that scores as kube-scheduler does. On a cluster, kube-scheduler's own
// default profile takes its place.
const Kubernetes = "kube-scheduler"

// WithProfiles gives every contender the scheduler profile that decides the same way on a
// cluster. files are the ones that [List] got.
func WithProfiles(contenders []eval.Contender, files []string) (out []live.Contender, err error) {
	ofFile := map[string]server.Profile{}
	for _, f := range files {
		p, err := FileProfile(f)
		if err != nil {
			return nil, err
		}
		ofFile[p.SchedulerName] = p
	}
	for _, c := range contenders {
		x := live.Contender{Contender: c, Running: strings.HasPrefix(c.Name, running+":")}
		if p, is := ofFile[c.Name]; is {
			x.Profile = p
		} else if c.Name == Kubernetes {
			x.Profile = server.Profile{SchedulerName: c.Name, Args: server.Args{Variant: server.DefaultProfile}}
		} else if x.Profile, err = server.ProfileNamed(c.Name); err != nil {
			return nil, exit.New(exit.Usage, err, "")
		}
		out = append(out, x)
	}
	return out, nil
}

// FileProfile returns the scheduler profile of a file for --checkpoint: [NAME=]FILE, with a network, with linear
// weights (.json), or with a KubeSchedulerConfiguration (.yaml). Its errors have exit codes. The checkpoint of a
// network is not read.
func FileProfile(argument string) (server.Profile, error) {
	if prefix, _, ok := strings.Cut(argument, ":"); ok && prefix == running {
		return server.Profile{}, exit.Usagef("--checkpoint %s: a file has no profile with %s: on a cluster", argument, prefix)
	}
	name, path := splitArgument(argument)
	file, err := filepath.Abs(path)
	if err != nil {
		return server.Profile{}, fmt.Errorf("find %s: %w", path, err)
	}
	if isStock(path) {
		p, err := server.ProfileNamed(stockPrefix + ":" + file)
		p.SchedulerName = name
		return p, err
	}
	if filepath.Ext(path) != ".json" {
		// Any variant will do: the file says what the network is.
		return server.Profile{SchedulerName: name, Args: server.Args{Checkpoint: file, Variant: server.Variants[0]}}, nil
	}
	if _, err := linear.Load(file); err != nil {
		return server.Profile{}, exit.New(exit.Usage, fmt.Errorf("%s: %w", argument, err),
			"networks, heuristics and linear weights have a scheduler profile")
	}
	return server.Profile{SchedulerName: name, Args: server.Args{Policy: heuristic.FromWeights(file)}}, nil
}

// withFile matches the names of policies that end in the path of a file.
var withFile = regexp.MustCompile(`^((?:[a-z-]+(?:=[^:]*)?:)*?)(linear:|stock:|mig:)(.+)$`)

// from returns a contender with the origin of a name of --policies.
func from(x eval.Contender, name string) eval.Contender {
	o := eval.Origin{Policy: name}
	if m := withFile.FindStringSubmatch(name); m != nil && (m[2] != "mig:" || strings.HasSuffix(name, ".json")) {
		o.Policy, o.File = m[1]+m[2], m[3]
	}
	return known(x, o)
}

// fromFile returns a contender with the origin of an argument of --checkpoint.
func fromFile(x eval.Contender, argument string) eval.Contender {
	o := eval.Origin{Argument: true}
	if of, ok := strings.CutPrefix(argument, running+":"); ok {
		o.Policy, argument = running+":", of
	}
	name, path := splitArgument(argument)
	o.Policy, o.File = o.Policy+name+"=", path
	return known(x, o)
}

func known(x eval.Contender, o eval.Origin) eval.Contender {
	x.Origin = &o
	return x
}

// Of returns the contender of an origin. The contenders of one origin, in any process, make the same choices.
func Of(o eval.Origin) (eval.Contender, error) {
	if o.Policy == eval.Optimum {
		return eval.Best(), nil
	}
	read := Named
	if o.Argument {
		read = load
	}
	return read(o.Policy + o.File)
}

// encode returns the name, type, shape and length of each array of the observation, and their bytes.
func (r *round) encode() (list [][4]any, bytes [][]byte) {
	a, w, rows, n := r.arrays, r.shape.Widths, r.arrays.Rows, len(r.seeds)
	add := func(name, kind string, data any, shape ...int) {
		b, err := binary.Append(nil, binary.LittleEndian, data)
		if err != nil {
			panic(err) // slices of numbers
		}
		list, bytes = append(list, [4]any{name, kind, shape, len(b)}), append(bytes, b)
	}
	add("candidate_offsets", "<i8", a.CandidateOffsets, n+1)
	add("action_mask", "<u1", a.Mask[:rows.Candidates], rows.Candidates)
	if w.Pod > 0 {
		add("pod_x", "<f4", a.PodX, n, w.Pod)
		add("cluster_x", "<f4", a.ClusterX, n, w.Cluster)
		add("candidate_x", "<f4", a.CandidateX[:rows.Candidates*w.Candidate], rows.Candidates, w.Candidate)
	}
	if r.shape.Graph || r.shape.Raw {
		add("candidate_node", "<i8", a.CandidateNode[:rows.Candidates], rows.Candidates)
		add("node_offsets", "<i8", a.NodeOffsets, n+1)
		add("zone_offsets", "<i8", a.ZoneOffsets, n+1)
	}
	if r.shape.Graph {
		add("node_x", "<f4", a.NodeX[:rows.Nodes*w.Node], rows.Nodes, w.Node)
		add("node_zone", "<i8", a.NodeZone[:rows.Nodes], rows.Nodes)
		add("group_x", "<f4", a.GroupX[:rows.Groups*w.Group], rows.Groups, w.Group)
		add("group_weight", "<f4", a.GroupWeight[:rows.Groups], rows.Groups)
		add("group_node", "<i8", a.GroupNode[:rows.Groups], rows.Groups)
	}
	if r.shape.Raw {
		add("node_raw", "<i8", a.NodeRaw[:rows.Nodes*vector.RawNode], rows.Nodes, vector.RawNode)
		add("pod_raw", "<i8", a.PodRaw, n, vector.RawPod)
	}
	return list, bytes
}

// defragPrefix begins defrag=SHARE/TIME:POLICY: POLICY, and at each TIME up to SHARE of the running pods move.
const defragPrefix = "defrag="

// evaluations bounds a search. On 1,213 nodes with 6,700 pods it needs 200,000 to 400,000.
const evaluations = 20_000_000

// defrag says when how many pods move.
type defrag struct {
	share float64 // of the running pods
	every string
	by    moves.Searcher
}

// parseDefrag reads SHARE/TIME or SHARE/TIME/SEARCH.
func parseDefrag(text string) (defrag, error) {
	parts := strings.Split(text, "/")
	percent, found := strings.CutSuffix(parts[0], "%")
	share, err := strconv.ParseFloat(percent, 64)
	switch {
	case !found || err != nil || !(share > 0 && share <= 100):
		return defrag{}, fmt.Errorf("%q is no share of the running pods, such as 2%%", parts[0])
	case len(parts) < 2 || len(parts) > 3:
		return defrag{}, errors.New("it takes a share and a time")
	}
	by, err := moves.Named(strings.Join(parts[2:], ""))
	if err != nil {
		return defrag{}, err
	}
	d := defrag{share / 100, parts[1], by}
	_, err = d.interval(1)
	return d, err
}

// interval returns the time between two searches in units of so many seconds; 0: seconds have no meaning.
func (d defrag) interval(unit float64) (float64, error) {
	n, err := strconv.ParseFloat(d.every, 64)
	if err != nil {
		var t time.Duration
		if t, err = time.ParseDuration(d.every); err == nil && unit == 0 {
			return 0, fmt.Errorf("%s: the scenario has no seconds; give the time in its unit, such as 100", d.every)
		}
		n = t.Seconds() / unit
	}
	if err != nil || !(n > 0) {
		return 0, fmt.Errorf("%q is no time over 0, such as 1h, or 100 in the unit of the scenario", d.every)
	}
	return n, nil
}

// defragmented returns the contender whose pods move.
func defragmented(prefix string, x eval.Contender) (eval.Contender, error) {
	d, err := parseDefrag(strings.TrimPrefix(prefix, defragPrefix))
	if err != nil {
		return x, exit.New(exit.Usage, fmt.Errorf("--policies: %s:%s: %w", prefix, x.Name, err), "for example defrag=2%/1h:"+x.Name)
	}
	x.Moves = d.begin
	x.Name = prefix + ":" + x.Name
	return x, nil
}

// begin lets pods move in the episode that begins.
func (d defrag) begin(env *sim.Env) error {
	for _, w := range env.Config().Objective {
		if objective.Measured(w.Term) {
			return exit.Usagef("the objective %s is measured after a move, not before it; pods move for other objectives only", w.Term.Name())
		}
	}
	every, err := d.interval(env.Config().Seconds())
	if err != nil {
		return exit.New(exit.Usage, err, "")
	}
	err = env.Every(every, func() {
		for _, c := range d.find(env) {
			if err := env.Move(c.Moves...); err != nil {
				panic(fmt.Sprintf("package moves found a move that the simulator refuses: %v", err))
			}
		}
	})
	if err != nil {
		return exit.New(exit.Usage, err, "leave out "+defragPrefix+" here")
	}
	return nil
}

// find returns the moves to make now.
func (d defrag) find(env *sim.Env) []moves.Change {
	var pods []moves.Pod
	for at, pod := range env.Running {
		pods = append(pods, moves.Pod{Pod: pod, ID: at.Pod, Row: at.Row, Devices: at.Devices})
	}
	typical := env.Wanted()
	s := moves.New(env.Nodes(), pods, moves.Config{Evaluations: evaluations, Track: func(nodes []*cluster.Node) objective.Tracker {
		return moves.Fragmentation(env.Config().Objective, typical, nodes)
	}})
	return moves.Find(s, d.by, int(d.share*float64(len(pods))), func() bool { return false })
}
