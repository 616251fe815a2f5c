package remote

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"

	"gnnsched/internal/cluster"
	"gnnsched/internal/fatal"
	"gnnsched/internal/workers"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/eval/contender"
	"gnnsched/scheduler/objective"
	"gnnsched/scheduler/sim"
)

// The test's program is its own child.
func TestMain(m *testing.M) {
	if os.Getenv("REMOTE_TEST") == "" {
		os.Exit(m.Run())
	}
	p := &Player{Contender: contender.Of}
	if err := workers.Child(context.Background(), os.Args[len(os.Args)-1], map[string]workers.Handler{Kind: p.Play}, os.Stdin,
		os.Stdout); err != nil {
		panic(err)
	}
}

// Every scenario comes out as it went in.
func TestWorldOfEveryScenario(t *testing.T) {
	for _, s := range eval.Scenarios() {
		c := s.Config
		for _, p := range c.Files() {
			*p = ""
		}
		w := fatal.Value(encodeWorld(c))(t)
		w.Files = make([]*File, len(c.Files()))
		data := fatal.Value(json.Marshal(w))(t)
		var read world
		fatal.If(t, json.Unmarshal(data, &read))
		got := fatal.Value(read.config(nil))(t)
		want, _ := json.Marshal(c)
		if again, _ := json.Marshal(got); string(again) != string(want) {
			t.Errorf("%s:\n%s\n%s", s.Name, again, want)
		}
	}
}

// What workers play is the same to the last bit: drawn scenarios, a trace, a program's pods, the optimum, policies from files and
// bounds.
func TestSameAsHere(t *testing.T) {
	server := fatal.Value(workers.Serve(workers.Serving{Dir: t.TempDir()}))(t)
	defer server.Close()
	queue, err := server.Connect(t.Context())
	fatal.If(t, err)
	defer queue.Close()
	path, _ := os.Executable()
	w := workers.Worker{Queue: queue, Name: "w", Slots: 2, Command: []string{"env", "REMOTE_TEST=child", path}, Limit: 10 * time.Minute,
		Log: zerolog.Nop()}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- w.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()

	weights := filepath.Join("..", "..", "policy", "linear", "linear.json")
	all := fatal.Value(contender.List([]string{"kube-scheduler", "gnn", "defrag=1%/1:best-fit", "linear:" + weights, "random"},
		[]string{"mine=" + weights}))(t)
	few := all[:2:2]
	others := fatal.Value(contender.List([]string{"clairvoyant:best-fit"}, nil))(t)
	measuring, err := contender.List([]string{"greedy:balance", "linear-energy"}, nil)
	fatal.If(t, err)
	pod := &cluster.Pod{Name: "p", Requests: cluster.Resources{MilliCPU: 1000, Memory: 1 << 30, Pods: 1}}
	program := eval.Scenario{Name: "program", Config: sim.Config{
		Objective: objective.Mix{{Term: objective.Balance{}, Weight: 1}},
		Given: &sim.Given{
			Nodes: []*cluster.Node{
				{Name: "a", Version: cluster.NextVersion(), Allocatable: cluster.Resources{MilliCPU: 4000, Memory: 8 << 30, Pods: 10}},
				{Name: "b", Version: cluster.NextVersion(), Allocatable: cluster.Resources{MilliCPU: 2000, Memory: 8 << 30, Pods: 10}},
			},
			Pods: func(seed uint64) (out []sim.Arrival) {
				for i := range 3 + int(seed%2) {
					out = append(out, sim.Arrival{Pod: pod, At: float64(i), Lifetime: float64(seed)})
				}
				return out
			},
		},
	}}
	trace := readScenario(t, "name: traced\nnodes: 4\nsizes: [{weight: 1, allocatable: {cpu: 16, memory: 64Gi, pods: 110}}]\ntrace: {file: "+
		"pods.csv}\nobjective: balance\n",
		"pods.csv", "name,pod_count,cpu_request,cpu_limit,mem_request,mem_limit,action\nweb,5,250m,1,512Mi,1Gi,add\ndb,3,2,2,4Gi,4Gi,add\n")
	for _, c := range []struct {
		s    eval.Scenario
		with []eval.Contender
	}{{find(t, "mixed"), all}, {find(t, "tiny"), append(few, others...)}, {program, few}, {trace, few}, {find(t, "energy"), measuring}} {
		play := func(ctx context.Context) *eval.Comparison {
			return fatal.Value(eval.Compare(ctx, c.s, c.with, eval.Seeds(3, 2), nil))(t)
		}
		played := 0
		away := eval.Within(t.Context(), &Players{Queue: queue, Waiting: func() {}, Played: func(workers.Result) { played++ }})
		if d := cmp.Diff(play(t.Context()).Results, play(away).Results); d != "" {
			t.Errorf("%s: %s", c.s.Name, d)
		}
		want := 2 * len(c.with)
		if c.s.Optimum {
			want += 2
		}
		if played != want {
			t.Errorf("%s: %d of %d episodes were played by workers", c.s.Name, played, want)
		}
	}
}

func find(t *testing.T, name string) eval.Scenario {
	return fatal.Value(eval.Find(name))(t)
}

// readScenario reads a scenario that lies beside another file.
func readScenario(t *testing.T, text, name, content string) eval.Scenario {
	dir := t.TempDir()
	fatal.If(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	all := fatal.Value(eval.Read(filepath.Join(dir, "s.yaml"), []byte(text)))(t)
	return all[0]
}

// A task from elsewhere may not read this machine's files, nor run programs.
func TestHostileTasks(t *testing.T) {
	dir := t.TempDir()
	put := func(v any) string {
		data := fatal.Value(json.Marshal(v))(t)
		f := fatal.Value(os.CreateTemp(dir, ""))(t)
		fatal.Value(f.Write(data))(t)
		return filepath.Base(f.Name())
	}
	blob := func(name string) (string, error) { return filepath.Join(dir, name), nil }
	small := fatal.Value(encodeWorld(find(t, "tiny").Config))(t)
	secret := filepath.Join("..", "..", "policy", "linear", "linear.json")
	fine := put(small)
	traced := world{Config: json.RawMessage(`{"trace":{"file":"/etc/passwd"}}`)}
	for name, c := range map[string]struct {
		task any
		want string
	}{
		"nonsense":   {"text", "cannot unmarshal"},
		"weights":    {episode{World: fine, Origin: eval.Origin{Policy: "linear:" + secret}}, "did not come with it"},
		"checkpoint": {episode{World: fine, Origin: eval.Origin{Policy: "x=", File: secret, Argument: true}}, ""},
		"program":    {episode{World: fine, Origin: eval.Origin{Policy: "python:" + secret}}, "does not play on workers"},
		"climbing": {episode{World: fine, Origin: eval.Origin{Policy: "linear:"},
			Weights: &File{Name: "../x", Blobs: map[string]string{".": fine}}}, "no name of a file"},
		"climbing in": {episode{World: fine, Origin: eval.Origin{Policy: "linear:"},
			Weights: &File{Name: "x", Blobs: map[string]string{"../y": fine}}}, "no path within"},
		"trace":     {episode{World: put(world{Config: traced.Config, Files: []*File{nil}})}, "trace.file"},
		"few files": {episode{World: put(traced)}, "0 files"},
		"empty":     {episode{World: put(world{Config: json.RawMessage("{}")})}, "nodes"},
	} {
		task, err := json.Marshal(c.task)
		fatal.If(t, err)
		_, err = (&Player{Contender: contender.Of}).Play(t.Context(), task, blob)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func FuzzPlay(f *testing.F) {
	f.Add([]byte(`{"World":"w","Seed":1}`), []byte(`{"Config":{"nodes":3},"Files":[]}`))
	f.Fuzz(func(t *testing.T, task, data []byte) {
		path := filepath.Join(t.TempDir(), "blob")
		fatal.If(t, os.WriteFile(path, data, 0o600))
		var e episode
		if json.Unmarshal(task, &e) != nil {
			return
		}
		_ = (&Player{Contender: contender.Of}).enter(e, func(string) (string, error) { return path, nil })
		_, _ = decodeArrivals(data)
	})
}

// A link to a file or a folder is sent as what it leads to, under its own name.
func TestSendFileFollowsLinks(t *testing.T) {
	server := fatal.Value(workers.Serve(workers.Serving{Dir: t.TempDir()}))(t)
	defer server.Close()
	queue := fatal.Value(server.Connect(t.Context()))(t)
	defer queue.Close()
	folder, link := t.TempDir(), filepath.Join(t.TempDir(), "prod.record")
	fatal.If(t, os.WriteFile(filepath.Join(folder, "pods"), []byte("rows"), 0o600))
	fatal.If(t, os.Symlink(folder, link))
	f := fatal.Value(SendFile(t.Context(), queue, link))(t)
	if f.Name != "prod.record" || len(f.Blobs) != 1 || f.Blobs["pods"] == "" {
		t.Errorf("%+v was sent", f)
	}
}
