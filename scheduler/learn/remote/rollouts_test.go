package remote

import (
	"bytes"
	"context"
	"encoding/gob"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"gnnsched/gnn/checkpoint"
	"gnnsched/internal/fatal"
	"gnnsched/internal/workers"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/learn"
	"gnnsched/scheduler/learn/run"
	"gnnsched/scheduler/sim"
)

// The test's program is its own child.
func TestMain(m *testing.M) {
	if os.Getenv("REMOTE_TEST") == "" {
		os.Exit(m.Run())
	}
	p := &Player{}
	handlers := map[string]workers.Handler{RolloutsKind: p.Play}
	if err := workers.Child(context.Background(), os.Args[len(os.Args)-1], handlers, os.Stdin, os.Stdout); err != nil {
		panic(err)
	}
}

// on returns rollouts on n processes.
func on(t testing.TB, n int) *Rollouts {
	t.Helper()
	server, err := workers.Serve(workers.Serving{Dir: t.TempDir()})
	fatal.If(t, err)
	t.Cleanup(server.Close)
	queue, err := server.Connect(t.Context())
	fatal.If(t, err)
	t.Cleanup(queue.Close)
	path, _ := os.Executable()
	child := []string{"env", "REMOTE_TEST=child", "GOMAXPROCS=1", path}
	w := workers.Worker{Queue: queue, Name: "w", Slots: n, Command: child, Limit: time.Minute, Log: zerolog.Nop()}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- w.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return &Rollouts{Context: t.Context(), Queue: queue, Waiting: func() {}}
}

// clusters are environments of a job in which a network acts.
type clusters struct {
	*run.Environments
	nets []*checkpoint.Checkpoint // act in turn
	next int
}

// begin returns the environments of a job's file.
func begin(t testing.TB, file string, count int, names ...string) *clusters {
	t.Helper()
	data, err := os.ReadFile("../runs/" + file)
	fatal.If(t, err)
	job, err := learn.ReadJob(file, data, "gnn")
	fatal.If(t, err)
	c := &clusters{}
	for _, name := range names {
		net, err := checkpoint.Shipped(name)
		fatal.If(t, err)
		c.nets = append(c.nets, net)
	}
	settings := run.Settings{Seed: 7, Reward: run.Reward{Kind: run.PlacementReward, Scale: 10}}
	layout := run.Layout{Count: count, Group: 1, All: true}
	configs, a := append([]sim.Config{job.Environment}, job.Also...), c.nets[0].Manifest.Architecture
	if c.Environments, err = run.NewEnvironments(settings, configs, layout, a, &run.Figures{}); err != nil {
		t.Fatal(err)
	}
	fatal.If(t, c.Begin(c.nets[0]))
	return c
}

// play places pods in every environment, and returns candidates to try. The next network acts from then on.
func (c *clusters) play(t testing.TB, placements, candidates int) (tried [][]int32) {
	t.Helper()
	c.next++
	fatal.If(t, c.Follow(c.nets[c.next%len(c.nets)]))
	for _, env := range c.All {
		for range placements {
			if _, last := env.Step(c.Rand.IntN(env.Candidates())); last {
				fatal.If(t, env.Begin())
			}
		}
		var few []int32
		for _, i := range c.Rand.Perm(env.Candidates())[:min(candidates, env.Candidates())] {
			few = append(few, int32(i))
		}
		tried = append(tried, few)
	}
	return tried
}

// here returns what rollouts cost in this process.
func (c *clusters) here(t testing.TB, tried [][]int32, horizon int) (costs [][]float64) {
	t.Helper()
	for i, env := range c.All {
		of, err := env.Costs(&eval.Rollout{Horizon: horizon, WaitCost: 0.3}, tried[i])
		fatal.If(t, err)
		costs = append(costs, of)
	}
	return costs
}

// Workers' rollouts cost what they cost here, to the last bit: in episodes that go on and in new ones, by networks that read messages,
// partners of pods and measured usage, and with several configurations.
func TestSameAsHere(t *testing.T) {
	away := on(t, 2)
	for _, x := range []struct {
		file string
		nets []string
	}{
		{"gnn-traffic.yaml", []string{"gnn-traffic"}}, {"acdqn-energy.yaml", []string{"acdqn-energy"}},
	} {
		t.Run(x.file, func(t *testing.T) {
			const horizon = 12
			c := begin(t, x.file, 3, x.nets...)
			away.worlds = nil
			for round := range 4 {
				tried := c.play(t, 1+40*round, 3)
				tried[1] = nil // nothing to compare there
				want := c.here(t, tried, horizon)
				got, err := away.Costs(c.Rollouts(tried, horizon, 0.3))
				fatal.If(t, err)
				if !slices.EqualFunc(got, want, slices.Equal[[]float64]) {
					t.Fatalf("round %d: %v, want %v", round, got, want)
				}
			}
		})
	}
}

// Whatever task a worker gets, it answers with a cost of each candidate or an error, and then plays as a worker that never got it.
func FuzzPlay(f *testing.F) {
	dir := f.TempDir()
	blob := func(name string) (string, error) {
		if !filepath.IsLocal(name) {
			return "", errors.New("none of the unit's data")
		}
		return filepath.Join(dir, name), nil
	}
	for _, name := range []string{"acdqn-energy", "gnn-traffic", "gpu-gnn"} {
		net, err := checkpoint.Shipped(name)
		if err == nil {
			err = net.Save(filepath.Join(dir, name))
		}
		fatal.If(f, err)
	}
	small, err := learn.EnvironmentByName("tiny")
	fatal.If(f, err)
	config, err := json.Marshal(small)
	fatal.If(f, err)
	for name, text := range map[string]string{"world": fmt.Sprintf(`{"Config":%s}`, config), "empty": `{"Config":{}}`, "broken": "{"} {
		fatal.If(f, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	good := []byte(`{"Net":"acdqn-energy","World":"world","Horizon":3,"WaitCost":0.3,"Env":1,"Seed":7,"Before":[0,1],"Tried":[0,1]}`)
	want, err := (&Player{}).Play(f.Context(), good, blob)
	fatal.If(f, err)
	f.Add(good)
	for _, other := range []string{`"gnn-traffic"`, `"gpu-gnn"`, `"broken"`, `"none"`} {
		f.Add(bytes.Replace(good, []byte(`"acdqn-energy"`), []byte(other), 1))
	}
	for _, other := range []string{`"empty"`, `"broken"`, `"../x"`} {
		f.Add(bytes.Replace(good, []byte(`"world"`), []byte(other), 1))
	}
	f.Add(bytes.Replace(good, []byte(`[0,1],"T`), []byte(`[0,-1],"T`), 1))
	f.Add(bytes.Replace(good, []byte(`"Tried":[0,1]`), []byte(`"Tried":[9]`), 1))
	f.Fuzz(func(t *testing.T, data []byte) {
		p := &Player{}
		for _, message := range [][]byte{good, data, data} {
			var sent task
			out, err := p.Play(t.Context(), message, blob)
			if err == nil && json.Unmarshal(message, &sent) == nil {
				_, err = decodeCosts(out, len(sent.Tried))
				if err != nil {
					t.Error(err)
				}
			}
		}
		if got, err := p.Play(t.Context(), good, blob); err != nil || !bytes.Equal(got, want) {
			t.Errorf("after that, a good task ends with %x, %v", got, err)
		}
	})
}

func FuzzCosts(f *testing.F) {
	for _, costs := range [][]float64{nil, {0.5}, {1, 2}, {math.NaN(), 1}, {math.Inf(1), 1}} {
		var b bytes.Buffer
		fatal.If(f, gob.NewEncoder(&b).Encode(costs))
		f.Add(b.Bytes(), len(costs))
	}
	f.Fuzz(func(t *testing.T, data []byte, rollouts int) {
		costs, err := decodeCosts(data, rollouts)
		if err != nil {
			return
		}
		if len(costs) != rollouts {
			t.Errorf("%d costs of %d rollouts", len(costs), rollouts)
		}
		for _, c := range costs {
			if c-c != 0 {
				t.Errorf("a rollout costs %v", c)
			}
		}
	})
}
