package remote

import (
	"bytes"
	"context"
	"encoding/gob"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gnnsched/internal/cluster"
	"gnnsched/internal/workers"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/sim"
	"gnnsched/workload/trace/openb"
)

// Kind is the kind of the units.
const Kind = "episode"

// Players plays episodes on the workers of a queue. It is an eval.Elsewhere.
type Players struct {
	Queue *workers.Queue
	// Waiting is called now and then while no episode ends, and Played after each one, one call at a time.
	Waiting func()
	Played  func(r workers.Result)
}

// Play implements eval.Elsewhere.
func (p *Players) Play(ctx context.Context, s eval.Scenario, turns []eval.Turn, played func(i int, o sim.Outcome)) error {
	units, watches := make([]workers.Unit, len(turns)), make([]*eval.Watch, len(turns))
	sender := sender{ctx: ctx, queue: p.Queue, weights: map[string]*File{}, pods: map[uint64]string{}}
	var err error
	if sender.name, sender.blobs, err = sendWorld(ctx, p.Queue, s.Config); err != nil {
		return err
	}
	for i, t := range turns {
		if observe := t.Contender.Observe; observe != nil {
			watches[i] = observe(t.Seed).(*eval.Watch) // there are no others
		}
		if units[i], err = sender.unit(s, t, watches[i]); err != nil {
			return fmt.Errorf("%s: %w", t.Contender.Name, err)
		}
	}
	return p.Queue.Run(ctx, units, p.Waiting, func(i int, r workers.Result) error {
		var x result
		if err := Decode(r.Data, &x); err != nil {
			return fmt.Errorf("outcome of %s: %w", units[i].About, err)
		}
		if watches[i] != nil {
			watches[i].Take(x.Seen)
		}
		p.Played(r)
		played(i, x.Outcome)
		return nil
	})
}

// sender puts what episodes need into the queue, once.
type sender struct {
	ctx     context.Context
	queue   *workers.Queue
	name    string   // of the world
	blobs   []string // of the world
	weights map[string]*File
	pods    map[uint64]string // by seed
}

// unit returns the unit of an episode.
func (s *sender) unit(scenario eval.Scenario, t eval.Turn, w *eval.Watch) (workers.Unit, error) {
	x := t.Contender
	e := episode{World: s.name, Name: x.Name, Origin: *x.Origin, RandomTies: x.RandomTies, Seed: t.Seed, Watch: w}
	u := workers.Unit{Kind: Kind, About: fmt.Sprintf("%s, %s, seed %d", scenario.Name, x.Name, t.Seed), Blobs: slices.Clone(s.blobs)}
	var err error
	if path := e.Origin.File; path != "" {
		if s.weights[path] == nil {
			if s.weights[path], err = SendFile(s.ctx, s.queue, path); err != nil {
				return u, err
			}
		}
		e.Weights, e.Origin.File = s.weights[path], ""
		u.Blobs = slices.AppendSeq(u.Blobs, maps.Values(e.Weights.Blobs))
	}
	if g := scenario.Given; g != nil {
		if e.Pods, err = s.arrivals(g, t.Seed); err != nil {
			return u, err
		}
		u.Blobs = append(u.Blobs, e.Pods)
	}
	u.Task, err = json.Marshal(e)
	return u, err
}

// arrivals sends a program's pods of a seed.
func (s *sender) arrivals(g *sim.Given, seed uint64) (string, error) {
	if s.pods[seed] == "" {
		data, err := encodeArrivals(g.Pods(seed))
		if err != nil {
			return "", err
		}
		if s.pods[seed], err = s.queue.Put(s.ctx, data); err != nil {
			return "", err
		}
	}
	return s.pods[seed], nil
}

// episode is the task of a unit: an episode of a contender.
type episode struct {
	World      string // blob: world
	Pods       string // blob: arrivals of a program's world; empty for others
	Name       string // of the contender
	Origin     eval.Origin
	Weights    *File // of Origin.File; nil if there is none
	RandomTies bool
	Seed       uint64
	Watch      *eval.Watch `json:",omitempty"` // nil: nobody watches
}

// result is the answer of a unit.
type result struct {
	Outcome sim.Outcome
	Seen    eval.Seen
}

// arrivals are sim.Arrivals, whose pods are shared.
type arrivals struct {
	Pods     []cluster.Pod
	Of       []int32 // by arrival: the pod
	At       []float64
	Lifetime []uint64 // bits of floating-point numbers: some are infinite
}

// encodeArrivals returns a program's pods as data.
func encodeArrivals(all []sim.Arrival) ([]byte, error) {
	var out arrivals
	number := map[*cluster.Pod]int32{}
	for _, x := range all {
		n, seen := number[x.Pod]
		if !seen {
			n = int32(len(out.Pods))
			number[x.Pod] = n
			out.Pods = append(out.Pods, *x.Pod)
		}
		if x.Usage != nil {
			return nil, fmt.Errorf("pod %s of a program has usage, which cannot be sent", x.Pod.Name)
		}
		out.Of, out.At, out.Lifetime = append(out.Of, n), append(out.At, x.At), append(out.Lifetime, math.Float64bits(x.Lifetime))
	}
	return json.Marshal(out)
}

func decodeArrivals(data []byte) (out []sim.Arrival, err error) {
	var a arrivals
	if err := json.Unmarshal(data, &a); err != nil {
		return nil, err
	}
	if len(a.At) != len(a.Of) || len(a.Lifetime) != len(a.Of) {
		return nil, fmt.Errorf("%d pods with %d times and %d lifetimes", len(a.Of), len(a.At), len(a.Lifetime))
	}
	if !slices.IsSorted(a.At) {
		return nil, fmt.Errorf("pods out of order")
	}
	for i, n := range a.Of {
		if n < 0 || int(n) >= len(a.Pods) {
			return nil, fmt.Errorf("pod %d of %d", n, len(a.Pods))
		}
		out = append(out, sim.Arrival{Pod: &a.Pods[n], At: a.At[i], Lifetime: math.Float64frombits(a.Lifetime[i])})
	}
	return out, nil
}

// Encode returns a result as data.
func Encode(v any) ([]byte, error) {
	var b bytes.Buffer
	err := gob.NewEncoder(&b).Encode(v)
	return b.Bytes(), err
}

// Decode reads what Encode returned.
func Decode(data []byte, v any) error {
	return gob.NewDecoder(bytes.NewReader(data)).Decode(v)
}

// Player computes the units: it plays their episodes. Units of the same world follow each other, so it keeps the last one.
type Player struct {
	Contender func(eval.Origin) (eval.Contender, error) // contender.Of

	world     string // of env
	env       *sim.Env
	of        string // the contender's origin, as JSON
	contender eval.Contender
}

// Play is a workers.Handler.
func (p *Player) Play(ctx context.Context, task []byte, blob func(string) (string, error)) ([]byte, error) {
	var e episode
	if err := json.Unmarshal(task, &e); err != nil {
		return nil, err
	}
	if err := p.enter(e, blob); err != nil {
		return nil, fmt.Errorf("scenario: %w", err)
	}
	x, err := p.meet(e, blob)
	if err != nil {
		return nil, err
	}
	var r result
	if e.Watch != nil {
		x.Observe = func(uint64) eval.Observer { return e.Watch }
	}
	if r.Outcome, err = x.Episode(ctx, p.env, e.Seed); err != nil {
		return nil, err
	}
	if e.Watch != nil {
		r.Seen = e.Watch.Seen
	}
	return Encode(r)
}

// enter makes the environment of an episode.
func (p *Player) enter(e episode, blob Blob) error {
	if key := e.World + e.Pods; p.world == key {
		return nil
	}
	return visit(e.World, blob, func(c sim.Config) error {
		if c.Given != nil {
			data, err := read(e.Pods, blob)
			if err != nil {
				return err
			}
			pods, err := decodeArrivals(data)
			if err != nil {
				return err
			}
			c.Given.Pods = func(uint64) []sim.Arrival { return pods }
		}
		if err := c.Validate(); err != nil {
			return err
		}
		var err error
		if p.env, err = sim.New(c); err == nil { // nobody reads its files any more
			p.world = e.World + e.Pods
		}
		return err
	})
}

// meet makes the contender of an episode.
func (p *Player) meet(e episode, blob Blob) (eval.Contender, error) {
	key, err := json.Marshal([]any{e.Origin, e.Weights})
	if err != nil {
		return eval.Contender{}, err
	}
	if p.of != string(key) {
		e.Origin.File = ""
		if e.Weights != nil {
			dir, err := os.MkdirTemp("", "gnnsched-weights-")
			if err != nil {
				return eval.Contender{}, err
			}
			defer os.RemoveAll(dir)
			if e.Origin.File, err = e.Weights.Write(dir, blob); err != nil {
				return eval.Contender{}, err
			}
		}
		if p.contender, err = p.Contender(e.Origin); err != nil {
			return eval.Contender{}, err
		}
		if p.contender.Origin.File != e.Origin.File { // it was read from this machine
			return eval.Contender{}, fmt.Errorf("%s names a file that did not come with it", e.Name)
		}
		p.of = string(key)
	}
	x := p.contender
	if x.PlayAll != nil { // it would run a program
		return x, fmt.Errorf("%s does not play on workers", e.Name)
	}
	x.Name, x.RandomTies = e.Name, e.RandomTies
	return x, nil
}

// sendWorld puts a configuration of the simulator, with its files, into the queue. It returns the name by which visit finds it, and those
// of all data that a unit needs for that.
func sendWorld(ctx context.Context, queue *workers.Queue, c sim.Config) (name string, blobs []string, err error) {
	at := c.Files()
	files := make([]*File, len(at))
	for i, path := range at {
		if *path == "" {
			continue
		}
		if files[i], err = SendFile(ctx, queue, *path); err != nil {
			return "", nil, err
		}
		blobs = append(blobs, slices.Collect(maps.Values(files[i].Blobs))...)
		*path = files[i].Name + files[i].Moment // its place is no part of the world
	}
	w, err := encodeWorld(c)
	if err != nil {
		return "", nil, err
	}
	w.Files = files
	data, err := json.Marshal(w)
	if err == nil {
		name, err = queue.Put(ctx, data)
	}
	return name, append(blobs, name), err
}

// visit reads the configuration of a name, and calls use with it. Its files exist until use returns.
func visit(name string, blob Blob, use func(c sim.Config) error) error {
	data, err := read(name, blob)
	if err != nil {
		return err
	}
	var w world
	if err := json.Unmarshal(data, &w); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "gnnsched-world-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	c, err := w.config(func(f *File) (string, error) { return f.Write(dir, blob) })
	if err != nil {
		return err
	}
	return use(c)
}

// world is the configuration of a scenario, as data.
type world struct {
	Config json.RawMessage // sim.Config
	Files  []*File         // in the order of sim.Config.Files; nil for an empty path

	OpenBNodes []openb.Node `json:",omitempty"` // sim.OpenB.Nodes
	OpenBPods  []openb.Pod  `json:",omitempty"` // sim.OpenB.Pods
	Given      *sim.Given   `json:",omitempty"` // what all seeds share
}

// encodeWorld returns the configuration as data. Its files are to be added.
func encodeWorld(c sim.Config) (w world, err error) {
	w.Given = c.Given
	if o := c.OpenB; o != nil {
		w.OpenBNodes, w.OpenBPods = o.Nodes, o.Pods
	}
	w.Config, err = json.Marshal(c)
	return w, err
}

// config returns the configuration, with its files as path returns them.
func (w world) config(path func(f *File) (string, error)) (c sim.Config, err error) {
	if err := json.Unmarshal(w.Config, &c); err != nil {
		return c, err
	}
	at := c.Files()
	if len(at) != len(w.Files) {
		return c, fmt.Errorf("%d files for a configuration with %d", len(w.Files), len(at))
	}
	for i, f := range w.Files {
		if *at[i] = ""; f == nil {
			continue
		}
		if *at[i], err = path(f); err != nil {
			return c, err
		}
	}
	if c.OpenB != nil {
		c.OpenB.Nodes, c.OpenB.Pods = w.OpenBNodes, w.OpenBPods
	}
	if c.Given = w.Given; c.Given != nil {
		for _, n := range c.Given.Nodes {
			n.Version = cluster.NextVersion()
		}
	}
	return c, nil
}

// Blob returns the path of the data of a name.
type Blob = func(name string) (string, error)

// File is a file, or the files of a folder.
type File struct {
	Name   string            // of the file or folder
	Moment string            // @TIME of a record; empty for others
	Blobs  map[string]string // by the path within a folder; "." for a file
}

// SendFile puts a file, or all files of a folder, into the queue. A path may end in @TIME.
func SendFile(ctx context.Context, queue *workers.Queue, path string) (*File, error) {
	f := &File{Blobs: map[string]string{}}
	if _, err := os.Stat(path); err != nil {
		if at := strings.LastIndexByte(path, '@'); at >= 0 {
			path, f.Moment = path[:at], path[at:]
		}
	}
	f.Name = filepath.Base(path)
	path, err := filepath.EvalSymlinks(path) // WalkDir does not follow a link
	if err != nil {
		return nil, err
	}
	err = filepath.WalkDir(path, func(at string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		within, err := filepath.Rel(path, at)
		if err != nil {
			return err
		}
		data, err := os.ReadFile(at)
		if err == nil {
			f.Blobs[filepath.ToSlash(within)], err = queue.Put(ctx, data)
		}
		return err
	})
	return f, err
}

// Write puts the file or folder below dir, and returns its path.
func (f *File) Write(dir string, blob Blob) (string, error) {
	if f == nil {
		return "", errors.New("no file came with it")
	}
	if !filepath.IsLocal(f.Name) {
		return "", fmt.Errorf("%q is no name of a file", f.Name)
	}
	if f.Moment != "" && (f.Moment[0] != '@' || strings.ContainsRune(f.Moment, filepath.Separator)) {
		return "", fmt.Errorf("%q is no moment of a record", f.Moment)
	}
	dir, err := os.MkdirTemp(dir, "")
	if err != nil {
		return "", err
	}
	for within, of := range f.Blobs {
		path := filepath.Join(dir, f.Name)
		if within != "." {
			if !filepath.IsLocal(within) {
				return "", fmt.Errorf("%q is no path within a folder", within)
			}
			path = filepath.Join(path, within)
		}
		data, err := read(of, blob)
		if err == nil {
			err = os.MkdirAll(filepath.Dir(path), 0o700)
		}
		if err == nil {
			err = os.WriteFile(path, data, 0o600)
		}
		if err != nil {
			return "", err
		}
	}
	return filepath.Join(dir, f.Name) + f.Moment, nil
}

func read(name string, blob Blob) ([]byte, error) {
	path, err := blob(name)
	if err != nil {
		return nil, err
	}
	return os.ReadFile(path)
}
