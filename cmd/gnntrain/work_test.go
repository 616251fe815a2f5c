//go:build torch

package main

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"gnnsched/gnn/checkpoint"
	"gnnsched/internal/cli"
	"gnnsched/internal/exit"
	"gnnsched/internal/fatal"
	"gnnsched/internal/workers"
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
	fatal.If(t, err)
	cmd := exec.CommandContext(t.Context(), path, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), asProgram+"=1", "LC_ALL=C") // as in a container: signs are written as ASCII, data must not be
	return cmd
}

const rolledRun = `
variant: gnn
hiddenLayers: 8
features: [base, whole]
steps: 2400
batchSize: 32
evaluateEvery: 600
evaluateSeeds: 2
imitation: {teacher: greedy-balance, share: 0.1}
rollouts: {envs: 16, every: 1, candidates: 8, horizon: 8, memory: 400}
environment: {scenario: training, nodes: {min: 9, max: 12}, turnover: 1, preferences: declared}
also: [{scenario: hetero80, nodes: {min: 9, max: 10}, preferences: declared}]
`

// written returns what a run wrote, without what depends on the clock.
func written(t *testing.T, path string) *checkpoint.Checkpoint {
	t.Helper()
	c, err := checkpoint.Load(path)
	fatal.If(t, err)
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
	fatal.If(t, err)
	defer server.Close()
	fatal.If(t, os.WriteFile(filepath.Join(dir, "my.yaml"), []byte(rolledRun), 0o600))
	train := func(name string, more ...string) *exec.Cmd {
		return command(t, dir, append([]string{"--out", name, "--events", name + ".logs", "--queue", filepath.Join(dir, "queue")}, more...)...)
	}
	fatal.If(t, os.WriteFile(filepath.Join(dir, "longer.yaml"), []byte(strings.Replace(rolledRun, "horizon: 8", "horizon: 9", 1)), 0o600))
	longer := train("longer", "--config", "longer.yaml")
	fatal.If(t, longer.Start())
	if out, err := train("here", "--config", "my.yaml").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	want := written(t, filepath.Join(dir, "here"))
	fatal.If(t, longer.Wait())
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
		fatal.If(t, killed.Start())
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
		fatal.If(t, resumed.Start())
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

// What workers cannot do is said at once.
func TestWorkersBadInput(t *testing.T) {
	out := filepath.Join(t.TempDir(), "x.safetensors")
	for want, args := range map[string][]string{
		"choose 1 to 1000 processes":     {"--workers", "0"},
		"give a number of processes":     {"--workers", "many"},
		"--connect with the URL of a qu": {"work"},
	} {
		if args[0] != "work" {
			args = append(args, "--out", out, "--events", filepath.Join(t.TempDir(), "events"))
		}
		if code, _, errs := gnntrain(t, t.Context(), args...); code != exit.Usage || !strings.Contains(errs, want) {
			t.Errorf("%v: code %d, want one with %q: %s", args, code, want, errs)
		}
	}
}
