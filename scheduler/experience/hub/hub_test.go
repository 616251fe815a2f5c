package hub

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/feature"
	"gnnsched/internal/bus"
	"gnnsched/internal/workers"
	"gnnsched/scheduler/encode"
	"gnnsched/scheduler/experience"
	"gnnsched/scheduler/learn/learntest"
	"gnnsched/scheduler/sim"
)

// serve starts a server in a folder.
func serve(t *testing.T, dir, listen string) *workers.Server {
	t.Helper()
	s, err := workers.Serve(workers.Serving{Dir: dir, Listen: listen})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func network(seed uint64) *checkpoint.Checkpoint {
	return checkpoint.Random(checkpoint.Architecture{Encoder: checkpoint.MLP, Head: checkpoint.DQN, Hidden: 4}, rand.New(rand.NewPCG(seed, 1)))
}

// learned returns a network that online learning made of start.
func learned(start *checkpoint.Checkpoint, seed uint64) *checkpoint.Checkpoint {
	c := network(seed)
	c.Manifest.Training = map[string]float64{checkpoint.OriginFigure: start.Origin()}
	return c
}

func open(t *testing.T, dir, url string, c *checkpoint.Checkpoint) *Hub {
	t.Helper()
	token, err := bus.Token(dir)
	if err != nil {
		t.Fatal(err)
	}
	h, err := Open(t.Context(), url, c, token)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Close)
	return h
}

// scheduler is a relay with what came out of it.
type scheduler struct {
	steps chan experience.Step
	saved chan *checkpoint.Checkpoint
	mu    sync.Mutex
	lines []string
}

func (s *scheduler) Next() (experience.Step, error) {
	step, more := <-s.steps
	if !more {
		return step, io.EOF
	}
	return step, nil
}

func (s *scheduler) said(part string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Contains(strings.Join(s.lines, "\n"), part)
}

func relay(t *testing.T, h *Hub) *scheduler {
	t.Helper()
	s := &scheduler{steps: make(chan experience.Step, 100), saved: make(chan *checkpoint.Checkpoint, 10)}
	ended := make(chan error, 1)
	r := Relay{
		Hub: h, Save: func(c *checkpoint.Checkpoint) error { s.saved <- c; return nil },
		Say: func(line string) { s.mu.Lock(); defer s.mu.Unlock(); s.lines = append(s.lines, line) },
	}
	go func() { ended <- r.Run(t.Context(), s) }()
	t.Cleanup(func() {
		close(s.steps)
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return s
}

func step(t *testing.T, actor string, number uint64) experience.Step {
	t.Helper()
	return experience.Step{Actor: actor, Epoch: 7, Number: number, State: learntest.Graph(t), Features: feature.Default().Hash()}
}

// collect returns the next n steps as ACTOR/NUMBER.
func collect(t *testing.T, s *Source, n int) (out []string) {
	t.Helper()
	for range n {
		x, err := s.Next()
		if err != nil {
			t.Fatalf("after %v: %v", out, err)
		}
		out = append(out, fmt.Sprint(x.Actor, "/", x.Number))
	}
	return out
}

func every(experience.Step) error { return nil }

func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for range 2000 {
		if is() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("not within 20 s: ", what)
}

// Two schedulers' steps reach the trainer, each actor's in their order and once, and its networks and reports both schedulers. A trainer
// after it goes on at the cursor.
func TestHub(t *testing.T) {
	dir, start := t.TempDir(), network(1)
	s := serve(t, dir, "127.0.0.1:0")
	h := open(t, dir, s.URL(), start)
	a, b := relay(t, open(t, dir, s.URL(), start)), relay(t, open(t, dir, s.URL(), learned(start, 2)))
	until(t, "the schedulers hear that there is no trainer", func() bool { return a.said("no trainer") && b.said("no trainer") })
	trainer, err := h.Train(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i := range uint64(20) {
		a.steps <- step(t, "a", i)
		b.steps <- step(t, "b", i)
	}
	a.steps <- step(t, "a", 19) // twice
	a.steps <- step(t, "a", 20)
	source := h.Source(t.Context(), every, func(line string) { t.Error(line) })
	next := map[string]int{}
	for _, got := range collect(t, source, 41) {
		if want := fmt.Sprint(got[:1], "/", next[got[:1]]); got != want {
			t.Errorf("%s, want %s", got, want)
		}
		next[got[:1]]++
	}
	again := h.Source(t.Context(), every, func(line string) { t.Error(line) })
	again.From(source.Cursor())
	b.steps <- step(t, "b", 20)
	if got := collect(t, again, 1); got[0] != "b/20" {
		t.Errorf("from the cursor: %v", got)
	}
	k := learned(start, 3)
	if err := errors.Join(trainer.Publish(t.Context(), k), trainer.Report(experience.Report{Read: 41})); err != nil {
		t.Fatal(err)
	}
	for _, x := range []*scheduler{a, b} {
		if got := <-x.saved; got.Fingerprint() != k.Fingerprint() {
			t.Error("another network arrived")
		}
		until(t, "the report", func() bool { return x.said(`"read":41`) })
	}
	late := relay(t, open(t, dir, s.URL(), start))
	if got := <-late.saved; got.Fingerprint() != k.Fingerprint() {
		t.Error("a late scheduler got another network")
	}
	if _, err := h.Train(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := trainer.Publish(t.Context(), k); !errors.Is(err, ErrReplaced) {
		t.Errorf("a trainer that was replaced: %v", err)
	}
}

// What no scheduler of this release sends is left out, and does not end the trainer. Networks that are not the scheduler's do not reach its
// file.
func TestHostile(t *testing.T) {
	dir, start := t.TempDir(), network(1)
	s := serve(t, dir, "127.0.0.1:0")
	h := open(t, dir, s.URL(), start)
	var notes []string
	source := h.Source(t.Context(), func(x experience.Step) error {
		if x.Features != feature.Default().Hash() {
			return errors.New("other features")
		}
		return nil
	}, func(line string) { notes = append(notes, line) })
	other := step(t, "a", 1)
	other.Features = "of another release"
	if _, err := h.js.PublishMsg(t.Context(), &nats.Msg{Subject: stepPrefix + h.network, Data: []byte("gnnstep?")}); err != nil {
		t.Fatal(err)
	}
	for _, x := range []experience.Step{other, step(t, "a", 2)} {
		if err := h.offer(t.Context(), x); err != nil {
			t.Fatal(err)
		}
	}
	if got := collect(t, source, 1); got[0] != "a/2" || len(notes) != 2 ||
		!strings.Contains(notes[1], "2 steps were refused; the last: other features") {
		t.Errorf("%v, with the notes %q", got, notes)
	}
	huge := step(t, "a", 3)
	huge.State = huge.State.Clone()
	huge.State.Resize(200_000)
	for i := range huge.State.NodeX {
		huge.State.NodeX[i] = 0.1
	}
	if err := h.offer(t.Context(), huge); err == nil || !strings.Contains(err.Error(), "max_payload") {
		t.Errorf("a huge step: %v", err)
	}
	a := relay(t, h)
	for i, data := range [][]byte{[]byte("no network"), {}} {
		if _, err := h.networks.PutBytes(t.Context(), h.network, data); err != nil {
			t.Fatal(err)
		}
		until(t, "a network to be refused", func() bool { return a.said(fmt.Sprint(i+1, " networks of the trainer were refused")) })
	}
	for range 1000 {
		if err := h.report("\x1b[31mred\x00\nnext"); err != nil {
			t.Fatal(err)
		}
	}
	if err := h.report(experience.Report{Read: 41}.Line()); err != nil {
		t.Fatal(err)
	}
	until(t, "a good report", func() bool { return a.said(`"read":41`) })
	if a.mu.Lock(); len(a.lines) > 15 {
		t.Errorf("1000 broken reports are %d lines", len(a.lines))
	}
	a.mu.Unlock()
	if !a.said("512 reports were refused; the last: [31mred next") || a.said("\x1b") {
		t.Errorf("%q", a.lines)
	}
	foreign := &Trainer{hub: h, name: "x"}
	for refused := 3; !a.said("it did not begin with"); refused++ { // the 4th is said
		if err := foreign.Publish(t.Context(), network(uint64(refused))); err != nil {
			t.Fatal(err)
		}
		if refused > 100 {
			t.Fatal("foreign networks are not refused")
		}
		bus.Pause(t.Context(), 50*time.Millisecond) // a watch may skip networks that are replaced at once
	}
	if len(a.saved) > 0 {
		t.Error("it was saved")
	}
}

// While the server is away, steps are lost after a while, and the scheduler does not wait. A server that has forgotten everything serves
// both sides again.
func TestServerForgets(t *testing.T) {
	was := patience
	t.Cleanup(func() { patience = was }) // after the relay has ended
	patience = 300 * time.Millisecond
	dir, start := t.TempDir(), network(1)
	s := serve(t, dir, "127.0.0.1:0")
	h, address := open(t, dir, s.URL(), start), s.URL()
	a := relay(t, open(t, dir, s.URL(), start))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	source := h.Source(ctx, every, func(string) {})
	for i := range uint64(5) {
		a.steps <- step(t, "a", i)
	}
	collect(t, source, 5)
	at, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	a.steps <- step(t, "a", 5)
	until(t, "a step to be lost", func() bool { return a.said("a step is lost") })
	for i := range uint64(90) {
		a.steps <- step(t, "a", 6+i)
	}
	until(t, "the steps to be lost at once", func() bool { return len(a.steps) == 0 })
	if err := os.RemoveAll(dir); err != nil { // its token, too
		t.Fatal(err)
	}
	serve(t, dir, at.Host)
	stop := make(chan struct{})
	var sender sync.WaitGroup
	sender.Go(func() { // until the streams are there again
		for i := uint64(96); ; i++ {
			select {
			case <-stop:
				return
			case <-time.After(100 * time.Millisecond):
				a.steps <- step(t, "a", i)
			}
		}
	})
	defer sender.Wait()
	defer close(stop)
	if got := collect(t, source, 3); got[0] == "a/5" {
		t.Errorf("the lost step came: %v", got)
	}
	trainer, err := h.Train(ctx)
	if err == nil {
		err = trainer.Publish(ctx, learned(start, 2))
	}
	if err != nil {
		t.Fatal(err)
	}
	until(t, "a network to come", func() bool { return len(a.saved) > 0 })
}

// A server that lets this process in no more ends both sides, although the scheduler says
// nothing: new processes may have other credentials.
func TestServerRefuses(t *testing.T) {
	dir, start := t.TempDir(), network(1)
	s := serve(t, dir, "127.0.0.1:0")
	h := open(t, dir, s.URL(), start)
	at, err := url.Parse(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	silent := &scheduler{steps: make(chan experience.Step)}
	defer close(silent.steps)
	ended := make(chan error, 1)
	run := func(ctx context.Context, h *Hub) {
		r := Relay{Hub: h, Say: func(string) {}}
		ended <- r.Run(ctx, silent)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go run(ctx, h)
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("a relay that is told to end: %v", err)
	}
	go run(t.Context(), open(t, dir, s.URL(), start))
	s.Close()
	serve(t, t.TempDir(), at.Host) // with another token
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "ended the connection") {
		t.Errorf("the relay: %v", err)
	}
	if _, err := h.Source(t.Context(), every, func(string) {}).Next(); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("the trainer's source: %v", err)
	}
}

// BenchmarkSteps measures how many steps of a cluster with 1,000 nodes pass from a scheduler to a trainer, and their size.
func BenchmarkSteps(b *testing.B) {
	dir, start := b.TempDir(), network(1)
	s, err := workers.Serve(workers.Serving{Dir: dir, Listen: "127.0.0.1:0"})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	token, err := bus.Token(dir)
	if err != nil {
		b.Fatal(err)
	}
	h, err := Open(b.Context(), s.URL(), start, token)
	if err != nil {
		b.Fatal(err)
	}
	defer h.Close()
	c := learntest.Env()
	c.Nodes = sim.IntRange{Min: 1000, Max: 1000}
	env := learntest.Started(b, c, 7)
	x := experience.Step{Actor: "a", State: encode.New(feature.Default()).Encode(env.Snapshot(), env.Pending(), env.Candidates()).Clone(),
		Features: feature.Default().Hash()}
	sent := make(chan error, 1)
	source := h.Source(b.Context(), every, func(line string) { b.Error(line) })
	b.ResetTimer()
	go func() {
		var err error
		for i := range b.N {
			x.Number = uint64(i)
			err = errors.Join(err, h.offer(b.Context(), x))
		}
		sent <- err
	}()
	for range b.N {
		if _, err := source.Next(); err != nil {
			b.Fatal(err)
		}
	}
	if err := <-sent; err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "steps/s")
	info, err := h.steps.Info(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(info.State.Bytes)/float64(info.State.Msgs), "bytes/step")
}
