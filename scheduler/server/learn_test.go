package server

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"testing"

	"gnnsched/gnn/checkpoint"
	"gnnsched/scheduler/online"
)

// trainerEnv makes the test binary a trainer that writes the checkpoint of that name.
const (
	trainerEnv = "GNNSCHED_TEST_CHECKPOINT"
	diesEnv    = "GNNSCHED_TEST_TRAINER_DIES"
)

// fakeTrainer writes another checkpoint after every three steps. With diesEnv it dies then.
func fakeTrainer(path string) int {
	c, err := checkpoint.Load(path)
	var r *online.Reader
	if err == nil {
		r, err = online.NewReader(os.Stdin)
	}
	for n := 1; err == nil; n++ {
		var s online.Step
		if s, err = r.Read(); err != nil {
			break
		}
		fmt.Printf("step %d of number %d\n", n, s.Number)
		if n%3 > 0 {
			continue
		}
		a := c.Manifest.Architecture
		if err = checkpoint.Random(a, rand.New(rand.NewPCG(rand.Uint64(), 1))).Save(path); err == nil && os.Getenv(diesEnv) != "" {
			return 3
		}
	}
	fmt.Println("the stream ends:", err)
	return 0
}

// A scheduler that learns hands its bindings to the trainer and loads what that writes; when
// it stops, so does the trainer, and nothing is left behind.
func (l *lab) testLearning(t *testing.T) {
	file := network(t, "gnn", nil)
	t.Setenv(trainerEnv, file)
	stop := l.schedule(t, Profile{SchedulerName: "learns", Variant: "gnn", Checkpoint: file, Learn: learn(os.Args[0])})
	ns := l.namespace(t, "learning")
	l.make(t, ns, "learns", 9)
	l.bound(t, ns, 9)
	l.until(t, "steps to be sent and a network to be loaded", func() error {
		m := l.metrics(t)
		sent, loads := m.sum("gnnsched_learning_steps_total", "profile", "learns", "result", "sent"), m.sum("gnnsched_checkpoint_loads_total", "profile", "learns", "result", "ok")
		if sent != 9 || loads < 2 {
			return fmt.Errorf("%v steps sent, %v networks loaded", sent, loads)
		}
		return nil
	})
	m := l.metrics(t)
	for _, name := range []string{"gnnsched_trainer_restarts_total", "gnnsched_fallbacks_total"} {
		if n := m.sum(name, "profile", "learns"); n != 0 {
			t.Errorf("%s is %v", name, n)
		}
	}
	stop()
	// The API server in this process comes and goes with goroutines of its own.
	stacks := make([]byte, 16<<20)
	if stacks = stacks[:runtime.Stack(stacks, true)]; bytes.Contains(stacks, []byte("scheduler/online.")) {
		t.Error("something of the feed is left after the scheduler has stopped")
	}
}

// A trainer that dies is started again, and pods get their nodes all the while.
func (l *lab) testTrainerDies(t *testing.T) {
	file := network(t, "gnn", nil)
	t.Setenv(trainerEnv, file)
	t.Setenv(diesEnv, "1")
	defer l.schedule(t, Profile{SchedulerName: "dies", Variant: "gnn", Checkpoint: file, Learn: learn(os.Args[0])})()
	l.restarted(t, 1)
	l.restarted(t, 2)
}

// restarted schedules pods of its own and waits until the trainer was started n times again.
func (l *lab) restarted(t *testing.T, n float64) {
	t.Helper()
	ns := l.namespace(t, fmt.Sprint("trainer-dies-", n))
	l.make(t, ns, "dies", 6)
	l.bound(t, ns, 6)
	l.until(t, "the trainer to be started again", func() error {
		m := l.metrics(t)
		if got := m.sum("gnnsched_trainer_restarts_total", "profile", "dies"); got < n {
			return fmt.Errorf("%v restarts", got)
		}
		return nil
	})
}
