//go:build torch

package learn

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/infer"
	"gnnsched/scheduler/encode"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/experience"
	"gnnsched/scheduler/learn/learntest"
	"gnnsched/scheduler/learn/online"
	"gnnsched/scheduler/learn/run"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/policy/neural"
	"gnnsched/scheduler/sim"
)

// endless is the source of steps of a scheduler that learns on a cluster of the simulator on which pods
// come and go without end. It explores as a profile with --learn does by default, and loads each saved network
// lag placements later.
type endless struct {
	env     *sim.Env
	rng     *rand.Rand
	left    int // steps still to make
	number  uint64
	epsilon float64

	encoder    *encode.Encoder
	session    *infer.Session
	head       checkpoint.Head
	layout     string // hash of the features
	acting     uint64 // fingerprint
	next       *checkpoint.Checkpoint
	sinceSaved int
	rows       []int32
}

// lag is the number of placements that a scheduler makes before it has loaded a network.
const lag = 5

// newEndless returns a source of a number of steps on a cluster that is filled already.
func newEndless(b testing.TB, c sim.Config, start *checkpoint.Checkpoint, steps int) *endless {
	b.Helper()
	c.Turnover = 1000
	e := &endless{rng: rand.New(rand.NewPCG(1, 2)), left: steps, epsilon: 0.1, env: learntest.Started(b, c, 1)}
	if err := e.load(start); err != nil {
		b.Fatal(err)
	}
	return e
}

func (e *endless) load(c *checkpoint.Checkpoint) error {
	net, err := infer.New(c)
	if err != nil {
		return err
	}
	e.encoder, e.session, e.head, e.layout = encode.New(net.Layout()), net.NewSession(), net.Head(), net.Layout().Hash()
	e.acting, e.next = c.Fingerprint(), nil
	return nil
}

func (e *endless) save(c *checkpoint.Checkpoint) error {
	e.next, e.sinceSaved = c, 0
	return nil
}

// Next implements experience.Source.
func (e *endless) Next() (experience.Step, error) {
	if e.left == 0 || e.env.Done() {
		return experience.Step{}, io.EOF
	}
	e.left--
	if e.sinceSaved++; e.next != nil && e.sinceSaved > lag {
		if err := e.load(e.next); err != nil {
			return experience.Step{}, err
		}
	}
	rows := e.env.Candidates()
	e.rows = e.rows[:0]
	for _, i := range e.env.Preferred() {
		e.rows = append(e.rows, rows[i])
	}
	state := e.encoder.Encode(e.env.Snapshot(), e.env.Pending(), e.rows).Clone()
	out, err := e.session.Score(state, nil)
	if err != nil {
		return experience.Step{}, err
	}
	e.number++
	s := experience.Step{
		Actor: "simulator", Number: e.number, State: state, Action: policy.Best(out.Scores), Before: e.env.Cost(),
		Waited: uint64(e.env.Waited()), Network: e.acting, Features: e.layout,
	}
	if e.head == checkpoint.ActorCritic {
		var log float32
		s.Action, log = policy.Sample(e.rng, out.Scores)
		s.Log = float64(log)
	} else {
		if e.rng.Float64() < e.epsilon {
			s.Action = e.rng.IntN(len(e.rows))
		}
		e.epsilon = max(e.epsilon*0.999, 0.01)
	}
	s.After = s.Before - e.env.Step(int(e.env.Preferred()[s.Action])) // no waiting cost in the simulator
	return s, nil
}

// settingsEnv names the variable with hyperparameters as JSON that BenchmarkOnline uses in place of the defaults.
const settingsEnv = "GNNSCHED_ONLINE"

// patienceEnv names the variable with the guard's patience that BenchmarkOnline uses in place of the flag's default.
const patienceEnv = "GNNSCHED_PATIENCE"

// BenchmarkOnline learns from b.N placements on an endless stream of the scenario mixed, from random weights, and
// prints the cost over time on held-out episodes as a multiple of the shipped network's. See make bench-online.
func BenchmarkOnline(b *testing.B) {
	scenario, err := eval.Find("mixed")
	if err != nil {
		b.Fatal(err)
	}
	c := scenario.Config
	held, err := run.NewHeldOut(c, 6)
	if err != nil {
		b.Fatal(err)
	}
	for _, variant := range variantNames() {
		b.Run(variant, func(b *testing.B) {
			if b.N == 1 {
				return // the trial run of the testing package
			}
			shipped, err := checkpoint.Shipped(variant)
			if err != nil {
				b.Fatal(err)
			}
			cost := func(k *checkpoint.Checkpoint) run.Score {
				s, err := held.Evaluate(neural.New(variant, learntest.Network(b, k), nil), false)
				if err != nil {
					b.Fatal(err)
				}
				return s
			}
			want := cost(shipped).MeanCost
			start := learntest.Weights(Architecture(variant, 32), 1)
			start.Manifest.Objective = "balance"
			job, err := onlineJob(start)
			if err != nil {
				b.Fatal(err)
			}
			if text := os.Getenv(settingsEnv); text != "" {
				if err := json.Unmarshal([]byte(text), &job.Config); err != nil {
					b.Fatal(err)
				}
			}
			source := newEndless(b, c, start, b.N)
			t, err := NewOnlineTrainer(job)
			if err != nil {
				b.Fatal(err)
			}
			guarded, err := run.NewHeldOut(job.Evaluation(), 8)
			if err != nil {
				b.Fatal(err)
			}
			t.Guard = online.Guard{Exam: online.HeldOut{HeldOut: guarded, Unscheduled: job.Unscheduled}, Tolerance: 0.1, Patience: 4}
			if text := os.Getenv(patienceEnv); text != "" {
				if t.Guard.Patience, err = strconv.Atoi(text); err != nil {
					b.Fatal(err)
				}
			}
			saved := start
			t.Save = func(k *checkpoint.Checkpoint) error { saved = k; return source.save(k) }
			measured, reached := 0, 0
			every := max(b.N/20, 500)
			t.Progress = func(p online.Progress) {
				if p.Steps/every <= measured/every {
					return
				}
				measured = p.Steps
				s := cost(saved)
				ratio := s.MeanCost / want
				if ratio <= 1.1 && reached == 0 {
					reached = p.Steps
				}
				fmt.Printf("%s\t%d placements\tcost over time %.4f\t%.2f of the shipped network's %.4f\twaiting %.1f\t%d kept back\n", variant,
					p.Steps, s.MeanCost, ratio, want, s.Unscheduled, p.KeptBack)
			}
			if err := t.Learn(source, start); err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(cost(saved).MeanCost/want, "of-shipped")
			b.ReportMetric(float64(reached), "placements-to-110%")
		})
	}
}
