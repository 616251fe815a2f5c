package server

import (
	"errors"
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
	"gnnsched/internal/logging"
	"gnnsched/scheduler/policy/heuristic"
)

func TestMain(m *testing.M) {
	if path := os.Getenv(trainerEnv); path != "" {
		os.Exit(fakeTrainer(path))
	}
	logging.DropKlog() // a cluster and a scheduler in one process log a lot
	os.Exit(m.Run())
}

// One scheduler process with every kind of profile works on an API server.
func TestScheduler(t *testing.T) {
	l := newLab(t)
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
	t.Run("manifests", l.testManifests)
	t.Run("preemption", l.testPreemption)
	t.Run("unschedulable", l.testUnschedulable)
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
	t.Run("outage", l.testOutage)
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

// placement holds the nodes of the bound pods by app label.
type placement map[string][]string

// onlyOn reports whether all pods of an app are on nodes with the given prefix.
func (p placement) onlyOn(app string, prefixes ...string) error {
	for _, node := range p[app] {
		fine := false
		for _, x := range prefixes {
			fine = fine || strings.HasPrefix(node, x)
		}
		if !fine {
			return fmt.Errorf("a pod of %s is on %s, want %v", app, node, prefixes)
		}
	}
	return nil
}

// most returns the largest number of pods of an app on one node.
func (p placement) most(app string) int {
	count, most := map[string]int{}, 0
	for _, node := range p[app] {
		count[node]++
		most = max(most, count[node])
	}
	return most
}

// Pods of ordinary manifests get nodes that the default scheduler's filters allow. If a pod gets none,
// its event names the reason.
func (l *lab) testManifests(t *testing.T) {
	for _, c := range []struct {
		file  string
		bound int
		left  int    // number of pods without a node
		why   string // part of their event
		check func(placement) error
	}{
		{file: "node-selector.yaml", bound: 6, check: func(p placement) error { return p.onlyOn("web", "ssd-") }},
		{file: "taints.yaml", bound: 10, check: func(p placement) error {
			if err := p.onlyOn("ordinary", "ssd-", "hdd-"); err != nil {
				return err
			}
			return p.onlyOn("training", "gpu-")
		}},
		{file: "node-affinity-required.yaml", bound: 6, check: func(p placement) error { return p.onlyOn("east", "ssd-0", "ssd-1") }},
		{file: "node-affinity-preferred.yaml", bound: 6, check: func(p placement) error { return p.onlyOn("preferring", "ssd-") }},
		{file: "replicas.yaml", bound: 6, check: func(p placement) error {
			if p.most("replicas") > 1 {
				return fmt.Errorf("two share a node: %v", p["replicas"])
			}
			return nil
		}},
		{file: "pod-affinity.yaml", bound: 5, check: func(p placement) error { return p.onlyOn("client", p["cache"][0]) }},
		{file: "pod-anti-affinity.yaml", bound: 6, left: 1, why: "didn't match pod anti-affinity rules", check: func(p placement) error {
			if p.most("quorum") > 1 {
				return fmt.Errorf("two share a node: %v", p["quorum"])
			}
			return p.onlyOn("quorum", "ssd-", "hdd-")
		}},
		{file: "topology-spread.yaml", bound: 7, check: func(p placement) error {
			zones := map[byte]int{}
			for _, node := range p["spread"] {
				zones[node[len(node)-1]]++
			}
			if len(zones) != 3 || zones['0'] < 2 || zones['1'] < 2 || zones['2'] < 2 {
				return fmt.Errorf("pods by zone: %v", zones)
			}
			return p.onlyOn("spread", "ssd-", "hdd-")
		}},
		{file: "host-ports.yaml", bound: 2, left: 1, why: "didn't have free ports", check: func(p placement) error {
			if p.most("ingress") > 1 {
				return fmt.Errorf("two have the port on one node: %v", p["ingress"])
			}
			return p.onlyOn("ingress", "ports-")
		}},
	} {
		name := strings.TrimSuffix(c.file, ".yaml")
		t.Run(name, func(t *testing.T) {
			ns := l.namespace(t, name)
			l.apply(t, ns, c.file)
			placed := placement{}
			for _, p := range l.bound(t, ns, c.bound) {
				placed[p.Labels["app"]] = append(placed[p.Labels["app"]], p.Spec.NodeName)
			}
			if err := c.check(placed); err != nil {
				t.Error(err)
			}
			l.allowed(t, ns)
			if c.left > 0 {
				l.refused(t, ns, "", c.why)
			}
			if n := len(l.pods(t, ns)); n != c.bound+c.left {
				t.Errorf("%d pods, want %d", n, c.bound+c.left)
			}
		})
	}
}

// refused waits for a FailedScheduling event that gives all the reasons.
func (l *lab) refused(t *testing.T, namespace, pod string, reasons ...string) {
	t.Helper()
	l.until(t, "an event about "+pod, func() error {
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

func (l *lab) testPreemption(t *testing.T) {
	ns := l.namespace(t, "preemption")
	l.apply(t, ns, "preemption-low.yaml")
	if low := l.bound(t, ns, 1)[0]; low.Spec.NodeName != "tight-0" {
		t.Fatalf("low is on %s", low.Spec.NodeName)
	}
	l.apply(t, ns, "preemption-high.yaml")
	l.until(t, "high to take low's place", func() error {
		for _, p := range l.pods(t, ns) {
			if p.Name == "high" && p.Spec.NodeName == "tight-0" {
				return nil
			}
		}
		return fmt.Errorf("it has no node: %v", l.events(t, ns, "high", "FailedScheduling"))
	})
	l.until(t, "low to be gone", func() error {
		if n := len(l.pods(t, ns)); n != 1 {
			return fmt.Errorf("%d pods", n)
		}
		return nil
	})
	l.until(t, "the event that low was preempted", func() error {
		if len(l.events(t, ns, "low", "Preempted")) == 0 {
			return errors.New("there is none")
		}
		return nil
	})
	l.allowed(t, ns)
}

func (l *lab) testUnschedulable(t *testing.T) {
	ns := l.namespace(t, "unschedulable")
	l.apply(t, ns, "unschedulable.yaml")
	l.refused(t, ns, "too-large", "0/13 nodes are available", "Insufficient cpu")
	l.refused(t, ns, "nowhere", "0/13 nodes are available", "didn't match Pod's node affinity/selector")
	l.refused(t, ns, "not-admitted", "0/13 nodes are available", "untolerated taint", "didn't match Pod's node affinity/selector")
	for _, p := range l.pods(t, ns) {
		if p.Spec.NodeName != "" {
			t.Errorf("%s is on %s", p.Name, p.Spec.NodeName)
		}
	}
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
	l.bound(t, ns, each*len(profiles))
	l.allowed(t, ns)
	l.until(t, "the events", func() error {
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
	l.until(t, "the loss to be noticed", func() error {
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
