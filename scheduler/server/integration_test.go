package server

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gnnsched/gnn/checkpoint"
	"gnnsched/internal/fatal"
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
		if _, err := l.client.CoreV1().Pods(namespace).Create(t.Context(), p, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
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
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
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
