package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gnnsched/gnn/checkpoint"
	"gnnsched/internal/fatal"
	"gnnsched/scheduler/experience"
	"gnnsched/scheduler/policy/heuristic"
)

// One scheduler process with every kind of profile works on an API server.
func TestScheduler(t *testing.T) {
	l := newLab(t, pools())
	gnn := network(t, "gnn", nil)
	profiles := []Profile{{SchedulerName: DefaultProfile, Args: Args{Variant: DefaultProfile}},
		{SchedulerName: "gnn", Args: Args{Variant: "gnn", Checkpoint: gnn}}}
	for _, v := range Variants[1:] {
		profiles = append(profiles, Profile{SchedulerName: v, Args: Args{Variant: v, Checkpoint: network(t, v, nil)}})
	}
	profiles = append(profiles,
		Profile{SchedulerName: "gnn-blended", Blend: map[string]int32{"NodeAffinity": 5}, Args: Args{Variant: "gnn", Checkpoint: gnn}},
		Profile{SchedulerName: "no-model", Args: Args{Variant: "gnn", Checkpoint: filepath.Join(t.TempDir(), "none")}},
		Profile{SchedulerName: "refused", Args: Args{Variant: "gnn", Checkpoint: network(t, "gnn", exploding)}},
		Profile{SchedulerName: "deadline", Args: Args{Variant: "gnn", Checkpoint: gnn, Deadline: metav1.Duration{Duration: time.Nanosecond}}},
	)
	for _, name := range heuristic.Names() {
		profiles = append(profiles, Profile{SchedulerName: name, Args: Args{Policy: name}})
	}
	for i := range profiles { // a busy machine is no reason to fall back
		if p := &profiles[i]; p.Policy == "" && p.Variant != DefaultProfile && p.Deadline.Duration == 0 {
			p.Deadline.Duration = time.Minute
		}
	}
	stop := l.schedule(t, profiles...)
	t.Run("every profile", func(t *testing.T) { l.testProfiles(t, profiles) })
	t.Run("endpoint", l.testEndpoint)
	t.Run("model deleted", func(t *testing.T) { l.testModelDeleted(t, gnn) })
	stop()
	t.Run("again in the same process", func(t *testing.T) {
		defer l.schedule(t, Profile{SchedulerName: "gnn", Args: Args{Variant: "gnn", Checkpoint: network(t, "gnn", nil)}})()
		ns := l.namespace(t, "again")
		l.make(t, ns, "gnn", 3)
		l.bound(t, ns, 3)
	})
	t.Run("doors", l.testDoors)
	t.Run("lease lost", l.testLeaseLost)
	t.Run("GPU shares", l.testShares)
	t.Run("learning", l.testLearning)
	t.Run("trainer dies", l.testTrainerDies)
	t.Run("learner stands by", l.testLearnerStandsBy)
}

func exploding(c *checkpoint.Checkpoint) {
	for _, w := range c.Weights {
		for i := range w.Data {
			w.Data[i] = 3e38
		}
	}
}

// refused waits for a FailedScheduling event that gives all the reasons.
func (l *lab) refused(t *testing.T, namespace, pod string, reasons ...string) {
	t.Helper()
	fatal.Until(t, "an event about "+pod, func() error {
		var seen []string
	events:
		for _, e := range l.events(t, namespace, pod, "FailedScheduling") {
			seen = append(seen, e.Message)
			for _, r := range reasons {
				if !strings.Contains(e.Message, r) {
					continue events
				}
			}
			return nil
		}
		return fmt.Errorf("events %q, want one with %q", seen, reasons)
	})
}

// make creates small pods with a scheduler name.
func (l *lab) make(t *testing.T, namespace, schedulerName string, count int) {
	t.Helper()
	for i := range count {
		p := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", schedulerName, i)},
			Spec: corev1.PodSpec{SchedulerName: schedulerName, Containers: []corev1.Container{{
				Name: "main", Image: "registry.k8s.io/pause:3.10",
				Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"),
					corev1.ResourceMemory: resource.MustParse("64Mi")}},
			}}},
		}
		fatal.Value(l.client.CoreV1().Pods(namespace).Create(t.Context(), p, metav1.CreateOptions{}))(t)
	}
}

// One process serves all four variants, the default profile and profiles whose network never works. Each
// schedules its own pods, and the metrics show which of them decided.
func (l *lab) testProfiles(t *testing.T, profiles []Profile) {
	ns := l.namespace(t, "profiles")
	const each = 5
	for _, p := range profiles {
		l.make(t, ns, p.SchedulerName, each)
	}
	for _, p := range l.bound(t, ns, each*len(profiles)) {
		if pool, _, _ := strings.Cut(p.Spec.NodeName, "-"); pool != "ssd" && pool != "hdd" {
			t.Errorf("%s is on %s, which has a taint", p.Name, p.Spec.NodeName)
		}
	}
	fatal.Until(t, "the events", func() error {
		by := map[string]int{}
		for _, e := range l.events(t, ns, "", "Scheduled") {
			if !strings.HasPrefix(e.InvolvedObject.Name, e.ReportingController+"-") {
				return fmt.Errorf("%s was scheduled by %s", e.InvolvedObject.Name, e.ReportingController)
			}
			by[e.ReportingController]++
		}
		for _, p := range profiles {
			if by[p.SchedulerName] != each {
				return fmt.Errorf("pods by scheduler: %v", by)
			}
		}
		return nil
	})
	m := l.metrics(t)
	for _, p := range profiles {
		name := p.SchedulerName
		if n := m.sum("gnnsched_scheduling_attempt_duration_seconds_count", "profile", name); n < each {
			t.Errorf("%s: %v attempts timed", name, n)
		}
		fell := m.sum("gnnsched_fallbacks_total", "profile", name)
		decided := m.sum("gnnsched_decision_duration_seconds_count", "profile", name)
		switch name {
		case DefaultProfile:
			if fell != 0 || decided != 0 {
				t.Errorf("%s: %v decisions, %v fallbacks", name, decided, fell)
			}
		case "no-model", "refused", "deadline":
			why := map[string]string{"no-model": "no_model", "refused": "no_model", "deadline": "deadline"}[name]
			if decided != 0 || fell < each || fell != m.sum("gnnsched_fallbacks_total", "profile", name, "reason", why) {
				t.Errorf("%s: %v decisions, %v fallbacks", name, decided, fell)
			}
		default:
			if decided < each || fell != 0 {
				t.Errorf("%s: %v decisions, %v fallbacks", name, decided, fell)
			}
		}
	}
}

// The metrics tell about every profile.
func (l *lab) testEndpoint(t *testing.T) {
	m := l.metrics(t)
	for _, name := range []string{
		"gnnsched_decision_duration_seconds_count", "gnnsched_candidates_count", "gnnsched_score_spread_count",
		"gnnsched_checkpoint_loads_total", "gnnsched_scheduling_attempt_duration_seconds_count",
	} {
		if m.sum(name, "profile", "gnn") == 0 {
			t.Errorf("no %s of profile gnn", name)
		}
	}
	if n := m.sum("gnnsched_checkpoint_loads_total", "profile", "no-model", "result", "error"); n != 1 {
		t.Errorf("%v failed loads of profile no-model, want 1", n)
	}
}

// A loaded network goes on deciding after its file is deleted.
func (l *lab) testModelDeleted(t *testing.T, file string) {
	ns := l.namespace(t, "deleted")
	fatal.If(t, os.Remove(file))
	fatal.Until(t, "the loss to be noticed", func() error {
		if l.metrics(t).sum("gnnsched_checkpoint_loads_total", "profile", "gnn", "result", "error") == 0 {
			return fmt.Errorf("no failed load is counted")
		}
		return nil
	})
	before := l.metrics(t).sum("gnnsched_decision_duration_seconds_count", "profile", "gnn")
	l.make(t, ns, "gnn", 5)
	l.bound(t, ns, 5)
	if n := l.metrics(t).sum("gnnsched_decision_duration_seconds_count", "profile", "gnn") - before; n != 5 {
		t.Errorf("the network decided %v times, want 5", n)
	}
}

// trainerEnv makes the test binary act as a trainer that writes the named checkpoint.
const (
	trainerEnv = "GNNSCHED_TEST_CHECKPOINT"
	diesEnv    = "GNNSCHED_TEST_TRAINER_DIES"
)

// fakeTrainer writes a new checkpoint after every three steps. With diesEnv it fails after the first one that it wrote.
func fakeTrainer(path string) int {
	c, err := checkpoint.Load(path)
	var r *experience.Reader
	if err == nil {
		r, err = experience.NewReader(os.Stdin)
	}
	if err == nil {
		fmt.Printf("starts with network %x\n", c.Fingerprint())
	}
	for n := 1; err == nil; n++ {
		var s experience.Step
		if s, err = r.Next(); err != nil {
			break
		}
		fmt.Printf("step %d of number %d\n", n, s.Number)
		fmt.Println(experience.Report{Read: uint64(n), Updates: uint64(n / 3), Figures: map[string]float64{"loss": 0.5}}.Line())
		if n%3 > 0 {
			continue
		}
		c = checkpoint.Random(c.Manifest.Architecture, rand.New(rand.NewPCG(rand.Uint64(), 1)))
		if err = c.Save(path); err == nil && os.Getenv(diesEnv) != "" {
			return 3
		}
	}
	fmt.Println("the stream ends:", err)
	return 0
}

// A scheduler that learns, by either kind of head, sends its bindings to the trainer and loads the trainer's checkpoints. When it
// stops, the trainer ends too, and no goroutine is left.
func (l *lab) testLearning(t *testing.T) {
	for _, variant := range []string{"gnn", "acdqn"} {
		t.Run(variant, func(t *testing.T) { l.testVariantLearns(t, variant) })
	}
}

func (l *lab) testVariantLearns(t *testing.T, variant string) {
	file, name := learning(t, variant), "learns-"+variant
	t.Setenv(trainerEnv, file)
	stop := l.schedule(t, Profile{SchedulerName: name, Args: Args{Variant: variant, Checkpoint: file, Learn: learn(os.Args[0])}})
	ns := l.namespace(t, name)
	l.make(t, ns, name, 9)
	l.bound(t, ns, 9)
	fatal.Until(t, "steps to be sent and a network to be loaded", func() error {
		m := l.metrics(t)
		sent, loads := m.sum("gnnsched_learning_steps_total", "profile", name, "result", "sent"),
			m.sum("gnnsched_checkpoint_loads_total", "profile", name, "result", "ok")
		if sent != 9 || loads < 2 {
			return fmt.Errorf("%v steps sent, %v networks loaded", sent, loads)
		}
		read, updates, loss := m.sum("gnnsched_trainer_placements_total", "profile", name, "result", "read"),
			m.sum("gnnsched_trainer_updates_total", "profile", name), m.sum("gnnsched_trainer_figure", "profile", name, "figure", "loss")
		if read != 9 || updates != 3 || loss != 0.5 {
			return fmt.Errorf("the trainer reported %v steps, %v updates, a loss of %v", read, updates, loss)
		}
		return nil
	})
	m := l.metrics(t)
	for _, metric := range []string{"gnnsched_trainer_restarts_total", "gnnsched_fallbacks_total"} {
		if n := m.sum(metric, "profile", name); n != 0 {
			t.Errorf("%s is %v", metric, n)
		}
	}
	stop()
	// The API server in this process has goroutines of its own.
	stacks := make([]byte, 16<<20)
	fatal.Until(t, "no goroutine of the pipe or of a queue to be left after the scheduler has stopped", func() error {
		all := stacks[:runtime.Stack(stacks, true)]
		for _, name := range []string{"scheduler/experience.", "scheduler/decision."} {
			if bytes.Contains(all, []byte(name)) {
				return fmt.Errorf("a goroutine of %s runs", name) // it may still be closing
			}
		}
		return nil
	})
}

// A standby has no trainer, and loads what the leader's trainer writes. When it leads, it starts a trainer
// with that. When it is told to stop, its trainer may finish.
func (l *lab) testLearnerStandsBy(t *testing.T) {
	file, name := learning(t, "gnn"), "stands-by"
	t.Setenv(trainerEnv, file)
	other := stand(t, l.client, "other")
	<-other.leads
	var log lines
	c := Config{Profiles: []Profile{{SchedulerName: name, Args: Args{Variant: "gnn", Checkpoint: file, Learn: learn(os.Args[0])}}},
		QPS: 1000, LeaderElect: true}
	stop := l.runOn(log.context(context.Background()), t, c, l.cluster.Kubeconfig())
	log.wait(t, l, `Standby: another scheduler leads" "leader"="other"`)
	written := checkpoint.Random(checkpoint.Architecture{Graph: checkpoint.KindsGraph, Encoder: checkpoint.GNN, Head: checkpoint.DQN, Hidden: 32},
		rand.New(rand.NewPCG(8, 8)))
	fatal.If(t, written.Save(file))
	fatal.Until(t, "the standby to load what another process wrote", func() error {
		if n := log.count("Network loaded"); n != 2 {
			return fmt.Errorf("%d networks loaded", n)
		}
		return nil
	})
	if n := log.count("Trainer: "); n > 0 {
		t.Errorf("a standby has a trainer, which said %d lines", n)
	}
	other.stop()
	log.wait(t, l, fmt.Sprintf("Trainer: starts with network %x", written.Fingerprint()))
	ns := l.namespace(t, name)
	l.make(t, ns, name, 2)
	l.bound(t, ns, 2)
	log.wait(t, l, "Trainer: step 2 of number 2")
	stop()
	if n := log.count("Trainer: the stream ends: EOF"); n != 1 {
		t.Errorf("the trainer was not let finish: %v", log.all)
	}
}

// wait waits for a line with a text.
func (g *lines) wait(t *testing.T, l *lab, text string) {
	t.Helper()
	fatal.Until(t, "the line "+text, func() error {
		if g.count(text) == 0 {
			return errors.New("it is not in the log")
		}
		return nil
	})
}

// learning returns the shipped network of a variant in a file of its own.
func learning(t *testing.T, variant string) (file string) {
	t.Helper()
	c, err := checkpoint.Shipped(variant)
	fatal.If(t, err)
	file = filepath.Join(t.TempDir(), "net.safetensors")
	fatal.If(t, c.Save(file))
	return file
}

// A trainer that dies is started again, and pods get nodes all the time.
func (l *lab) testTrainerDies(t *testing.T) {
	file := learning(t, "gnn")
	t.Setenv(trainerEnv, file)
	t.Setenv(diesEnv, "1")
	defer l.schedule(t, Profile{SchedulerName: "dies", Args: Args{Variant: "gnn", Checkpoint: file, Learn: learn(os.Args[0])}})()
	l.restarted(t, 1)
	l.restarted(t, 2)
}

// restarted creates pods until the trainer has been started again n times.
func (l *lab) restarted(t *testing.T, n float64) {
	t.Helper()
	ns := l.namespace(t, fmt.Sprint("trainer-dies-", n))
	l.make(t, ns, "dies", 6)
	l.bound(t, ns, 6)
	fatal.Until(t, "the trainer to be started again", func() error {
		m := l.metrics(t)
		if got := m.sum("gnnsched_trainer_restarts_total", "profile", "dies"); got < n {
			return fmt.Errorf("%v restarts", got)
		}
		return nil
	})
}
