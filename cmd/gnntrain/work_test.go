//go:build torch

package main

import (
	"bytes"
	"context"
	"encoding/gob"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	ucli "github.com/urfave/cli/v2"

	"gnnsched/gnn/checkpoint"
	"gnnsched/internal/cli"
	"gnnsched/internal/exit"
	"gnnsched/internal/workers"
	"gnnsched/scheduler/eval/remote"
	"gnnsched/scheduler/learn"
)

// asProgram is the environment variable that makes the test's binary the program.
const asProgram = "GNNTRAIN_TEST_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" || slices.Contains(os.Args, "--child") { // a worker's child would run all tests
		os.Exit(cli.Run(app(), os.Args))
	}
	os.Exit(m.Run())
}

// command returns a command of gnntrain in a folder.
func command(t *testing.T, dir string, args ...string) *exec.Cmd {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), path, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), asProgram+"=1")
	return cmd
}

const rolledRun = `
variant: gnn
method: rollouts
hiddenLayers: 8
features: [base, whole]
steps: 2400
batchSize: 32
evaluateEvery: 600
evaluateSeeds: 2
imitation: {teacher: greedy-balance, share: 0.1}
rollouts: {envs: 16, every: 1, candidates: 8, horizon: 8, memory: 400}
environment: {scenario: training, nodes: {min: 9, max: 12}, turnover: 1}
also: [{scenario: hetero80, nodes: {min: 9, max: 10}}]
`

// written returns what a run wrote, without what depends on the clock.
func written(t *testing.T, path string) *checkpoint.Checkpoint {
	t.Helper()
	c, err := checkpoint.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	delete(c.Manifest.Training, "seconds")
	return c
}

var scaleOut = flag.Duration("scaleout", 0, "how long TestRolloutsOnWorkers trains at least, while workers are killed")

// team is workers of a queue.
type team struct {
	*testing.T
	dir, url string
	all      [8]*exec.Cmd
	rand     *rand.Rand
	kills    int
}

// newTeam starts the workers.
func newTeam(t *testing.T, dir, url string) *team {
	m := &team{T: t, dir: dir, url: url, rand: rand.New(rand.NewPCG(1, 1))}
	for i := range m.all {
		m.start(i)
	}
	return m
}

func (m *team) start(i int) {
	m.all[i] = command(m.T, m.dir, "work", "--connect", m.url, "--slots", "1", "--queue", filepath.Join(m.dir, "queue"), "--log-dir", "")
	if err := m.all[i].Start(); err != nil {
		m.Fatal(err)
	}
}

// kill kills half of the workers, and starts others in their place.
func (m *team) kill() {
	for _, i := range m.rand.Perm(len(m.all))[:len(m.all)/2] {
		m.end(i)
		m.start(i)
		m.kills++
	}
}

func (m *team) end(i int) {
	_ = m.all[i].Process.Kill()
	_ = m.all[i].Wait()
}

// Rollouts give the weights of one process, though half of eight workers are killed again and again, and the learner too, which goes on.
func TestRolloutsOnWorkers(t *testing.T) {
	dir := t.TempDir()
	server, err := workers.Serve(workers.Serving{Dir: filepath.Join(dir, "queue"), Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	if err := os.WriteFile(filepath.Join(dir, "my.yaml"), []byte(rolledRun), 0o600); err != nil {
		t.Fatal(err)
	}
	train := func(name string, more ...string) *exec.Cmd {
		return command(t, dir, append([]string{"--out", name, "--events", name + ".logs", "--queue", filepath.Join(dir, "queue")}, more...)...)
	}
	longer := train("longer", "--config", "my.yaml", "--try-horizon", "9")
	if err := longer.Start(); err != nil {
		t.Fatal(err)
	}
	if out, err := train("here", "--config", "my.yaml").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	want := written(t, filepath.Join(dir, "here"))
	if err := longer.Wait(); err != nil {
		t.Fatal(err)
	}
	if reflect.DeepEqual(written(t, filepath.Join(dir, "longer")).Weights, want.Weights) {
		t.Error("the rollouts do not matter")
	}
	team := newTeam(t, dir, server.URL())
	defer func() {
		for i := range team.all {
			team.end(i)
		}
	}()
	runs := 0
	for begin := time.Now(); runs == 0 || time.Since(begin) < *scaleOut; runs++ {
		name := fmt.Sprint("killed", runs)
		state := filepath.Join(dir, name+".state")
		killed := train(name, "--config", "my.yaml", "--workers", server.URL())
		if err := killed.Start(); err != nil {
			t.Fatal(err)
		}
		for i := 0; ; i++ {
			if _, err := os.Stat(state); err == nil {
				break
			}
			if time.Sleep(10 * time.Millisecond); i > 3000 {
				t.Fatal("no state after 30 s")
			}
		}
		team.kill()
		_ = killed.Process.Kill()
		_ = killed.Wait()
		var said bytes.Buffer
		resumed := train(name, "--resume", "--workers", server.URL())
		resumed.Stdout, resumed.Stderr = &said, &said
		if err := resumed.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- resumed.Wait() }()
		for done := false; !done; {
			select {
			case err := <-ended:
				if done = true; err != nil {
					t.Fatalf("%v: %s", err, said.String())
				}
			case <-time.After(5 * time.Second): // a worker needs two to start, beside seven others
				if time.Since(begin) < max(*scaleOut, 20*time.Second) { // then it ends in peace
					team.kill()
				}
			}
		}
		if !reflect.DeepEqual(written(t, filepath.Join(dir, name)), want) {
			t.Fatal("killed and resumed, the run ended elsewhere")
		}
	}
	t.Logf("%d runs, %d workers killed", runs, team.kills)
}

// Runs of several seeds on workers write what they write in this process, to the files that pick expects.
func TestSeedsOnWorkers(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", dir)
	teacher, err := os.ReadFile("../../scheduler/policy/linear/linear.json")
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"my.yaml": tinyRun + "imitation: {teacher: my.json}", "my.json": string(teacher),
		"gpu.yaml": "hidden: 8\niterations: 2\nupdates: 5\nevaluateWorkloads: 2",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	start := command(t, dir, "--config", "my.yaml", "--seed", "9", "--steps", "200", "--out", "start.safetensors", "--events", "logs/start")
	if out, err := start.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for name, args := range map[string][]string{
		"job": {"--config", "my.yaml", "--start", "start.safetensors"}, "gpu": {"gpu", "--data", gpuTrace(t), "--config", "gpu.yaml"},
	} {
		for where, workers := range map[string]string{"here": "auto", "away": "2"} {
			out := name + "-" + where
			args := append(slices.Clone(args), "--seeds", "1,2", "--out", out+".safetensors", "--events", "logs/"+out)
			args = append(args, "--queue", "queue", "--workers", workers)
			text, err := command(t, dir, args...).CombinedOutput()
			if err != nil || !strings.Contains(string(text), "wrote "+out+"-1.safetensors: held-out") {
				t.Fatalf("%v: %s", err, text)
			}
		}
		for _, seed := range []string{"1", "2"} {
			at := func(where string) string { return filepath.Join(dir, name+"-"+where+"-"+seed+".safetensors") }
			if !reflect.DeepEqual(written(t, at("here")), written(t, at("away"))) {
				t.Errorf("%s: seed %s ended elsewhere", name, seed)
			}
		}
		one, other := filepath.Join(dir, name+"-here-1.safetensors"), filepath.Join(dir, name+"-away-2.safetensors")
		code, _, errs := gnntrain(t, t.Context(), "pick", "--out", filepath.Join(dir, "best"), one, other)
		if code != exit.OK {
			t.Error(errs)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "gpu-away-1.typical.json")); err != nil {
		t.Error(err)
	}
	if left, _ := os.ReadDir(filepath.Join(dir, "gnnsched", "runs")); len(left) > 0 {
		t.Errorf("runs that are over left %v", left)
	}
}

// A run from elsewhere cannot choose where this machine writes, what it reads, or another command.
func TestHostileRun(t *testing.T) {
	for _, w := range []wholeRun{
		{Command: "pick"}, {Inputs: [][2]string{{"--out=/tmp/x", ""}}}, {Inputs: [][2]string{{"--start", "/etc/passwd"}}},
		{Command: "gpu", Inputs: [][2]string{{"--pods", "../pods.csv"}}},
	} {
		if args, err := w.arguments(t.TempDir(), nil); err == nil {
			t.Errorf("%+v: %v", w, args)
		}
	}
}

// A worker's result is written to the paths of this command only, whatever folder it names.
func TestHostileResult(t *testing.T) {
	dir := t.TempDir()
	to := runFiles{out: filepath.Join(dir, "my.safetensors"), events: filepath.Join(dir, "logs")}
	for name, fine := range map[string]bool{
		wholeOut: true, "events/curves": true,
		"authorized_keys": false, "events/../../x": false, "../x": false, "/x": false, "": false, wholeState: false,
	} {
		var b bytes.Buffer
		result := wholeResult{Dir: filepath.Join(dir, "home"), Files: map[string][]byte{name: []byte("x")}}
		if err := gob.NewEncoder(&b).Encode(result); err != nil {
			t.Fatal(err)
		}
		c := ucli.NewContext(&ucli.App{Writer: io.Discard, ErrWriter: io.Discard}, nil, nil)
		if err := accept(c, b.Bytes(), to); (err == nil) != fine {
			t.Errorf("%q: %v", name, err)
		}
	}
	if all, err := os.ReadDir(dir); err != nil || len(all) != 2 {
		t.Errorf("%v, %v", all, err)
	}
}

// Whatever run a worker gets, it reads and writes in the folder of the run only, and no command comes with it.
func FuzzRun(f *testing.F) {
	for _, w := range []wholeRun{
		{Config: json.RawMessage(`{"Variant":"gnn"}`)}, {Command: "gpu", Config: json.RawMessage("{}")}, {Command: "pick"},
		{Config: json.RawMessage(`{"Residual":"my.json"}`), Named: []string{"my.json"},
			Sent: map[string]*remote.File{"my.json": {Blobs: map[string]string{"../../my.json": "../passwd"}}}},
		{Inputs: [][2]string{{"--start", "x"}}, Sent: map[string]*remote.File{"x": {Blobs: map[string]string{"x": "blob"}}}},
	} {
		data, err := json.Marshal(w)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		base := t.TempDir()
		given, dir := filepath.Join(base, "blob"), filepath.Join(base, "run")
		if err := errors.Join(os.Mkdir(dir, 0o700), os.WriteFile(given, []byte("data"), 0o600)); err != nil {
			t.Fatal(err)
		}
		var w wholeRun
		if json.Unmarshal(data, &w) != nil {
			return
		}
		args, err := w.arguments(dir, func(string) (string, error) { return given, nil })
		if all, _ := os.ReadDir(base); len(all) != 2 {
			t.Fatalf("written outside the folder of the run: %v", all)
		}
		if err != nil {
			return
		}
		if args[1] != "gpu" {
			args = slices.Insert(args, 1, "train")
		}
		for i, a := range args[2:] {
			flag := strings.HasPrefix(a, "--") && slices.Contains([]string{"log-scrolling", "out", "state", "events", "start", "nodes", "pods",
				"config", "resume"}, a[2:])
			within, err := filepath.Rel(dir, a)
			if !flag && (err != nil || !filepath.IsLocal(within)) {
				t.Errorf("argument %d of %q", i+2, args)
			}
		}
	})
}

// A worker's result is written to the network's file and the folder of curves, and otherwise refused.
func FuzzRunResult(f *testing.F) {
	for _, name := range []string{wholeOut, "events/curves", "events/../x", "/x", "manifest.json", ""} {
		var b bytes.Buffer
		if err := gob.NewEncoder(&b).Encode(wholeResult{Dir: "/home", Files: map[string][]byte{name: []byte("x")}}); err != nil {
			f.Fatal(err)
		}
		f.Add(b.Bytes())
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		base := t.TempDir()
		dir := filepath.Join(base, "mine")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		c := ucli.NewContext(&ucli.App{Writer: io.Discard, ErrWriter: io.Discard}, nil, nil)
		_ = accept(c, data, runFiles{out: filepath.Join(dir, "my.safetensors"), events: filepath.Join(dir, "logs")})
		outside, _ := os.ReadDir(base)
		inside, err := os.ReadDir(dir)
		for _, d := range inside {
			if !slices.Contains([]string{"my.safetensors", "my.typical.json", "logs"}, d.Name()) {
				t.Errorf("%q was written", d.Name())
			}
		}
		if len(outside) != 1 || err != nil {
			t.Errorf("%v beside the run's files, %v", outside, err)
		}
	})
}

// A run whose worker was killed goes on from its state, if a worker of the same machine begins it again.
func TestWholeRunGoesOn(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	job, err := learn.ReadJob("tiny", []byte(tinyRun), "")
	if err != nil {
		t.Fatal(err)
	}
	config, _ := json.Marshal(job)
	task, _ := json.Marshal(wholeRun{Config: config})
	train := func() *checkpoint.Checkpoint {
		data, err := trainWhole(t.Context(), task, nil)
		var r wholeResult
		if err == nil {
			err = gob.NewDecoder(bytes.NewReader(data)).Decode(&r)
		}
		if err != nil {
			t.Fatal(err)
		}
		c, err := checkpoint.Read(bytes.NewReader(r.Files[wholeOut]))
		if err != nil {
			t.Fatal(err)
		}
		delete(c.Manifest.Training, "seconds")
		return c
	}
	want := train()
	dir, end, err := runFolder(task)
	if err != nil {
		t.Fatal(err)
	}
	args, err := wholeRun{Config: config}.arguments(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	if code, _, errs := gnntrain(t, stopped, args[1:]...); code != exit.Interrupted {
		t.Fatalf("code %d: %s", code, errs)
	}
	if again, _ := (wholeRun{Config: config}).arguments(dir, nil); !slices.Contains(again, "--resume") {
		t.Errorf("begins anew: %v", again)
	}
	if other, end, err := runFolder(task); err != nil || other == dir {
		t.Errorf("two processes in %s, %v", other, err)
	} else {
		end()
	}
	end()
	if got := train(); !reflect.DeepEqual(got, want) {
		t.Error("killed and begun again, the run ended elsewhere")
	}
}

// What workers cannot do is said at once.
func TestWorkersBadInput(t *testing.T) {
	out := filepath.Join(t.TempDir(), "x.safetensors")
	for want, args := range map[string][]string{
		"exclude each other":             {"--seeds", "1", "--seed", "2"},
		"--seeds and --resume":           {"--seeds", "1", "--resume"},
		"give different numbers":         {"--seeds", "1,1"},
		"from 1 to 1073741823":           {"--seeds", "0"},
		"--seeds is empty":               {"--seeds", ","},
		"choose 1 to 1000 processes":     {"--workers", "0", "--method", "rollouts"},
		"this run learns by":             {"--workers", "1", "--queue", t.TempDir(), "--steps", "1"},
		"they train whole runs":          {"gpu", "--data", gpuTrace(t), "--workers", "1"},
		"give a number of processes":     {"--seeds", "1", "--workers", "many"},
		"no such file":                   {"--seeds", "1", "--workers", "1", "--queue", t.TempDir(), "--start", "none.safetensors"},
		"--connect with the URL of a qu": {"work"},
	} {
		if args[0] != "gpu" && args[0] != "work" {
			args = append(args, "--out", out, "--events", filepath.Join(t.TempDir(), "events"))
		}
		if code, _, errs := gnntrain(t, t.Context(), args...); code != exit.Usage || !strings.Contains(errs, want) {
			t.Errorf("%v: code %d, want one with %q: %s", args, code, want, errs)
		}
	}
}
