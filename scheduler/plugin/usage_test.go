package plugin

import (
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	st "k8s.io/kubernetes/pkg/scheduler/testing"

	"gnnsched/internal/fatal"
	"gnnsched/internal/promapi"
	"gnnsched/scheduler/policy/preference"
	"gnnsched/scheduler/usage"
)

// idleAndHot returns a Prometheus that measures two nodes of 4 CPUs, one of which uses little and the other much.
func idleAndHot(t *testing.T) (source *usage.Config, idle, hot *v1.Node) {
	t.Helper()
	prometheus := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := ""
		switch q := r.FormValue("query"); {
		case q == "cpu":
			answer = `{"metric":{"node":"idle"},"value":[1,"0.1"]},{"metric":{"node":"hot"},"value":[1,"2.4"]}`
		case strings.Contains(q, "throttled"):
			answer = `{"metric":{"node":"hot"},"value":[1,"0.5"]}`
		case strings.Contains(q, "(node_memory"):
			answer = `{"metric":{"node":"idle"},"value":[1,"1e9"]},{"metric":{"node":"hot"},"value":[1,"1e9"]}`
		}
		fmt.Fprintf(w, `{"status":"success","data":{"resultType":"vector","result":[%s]}}`, answer)
	}))
	t.Cleanup(prometheus.Close)
	node := func(name string) *v1.Node {
		return st.MakeNode().Name(name).Capacity(map[v1.ResourceName]string{"cpu": "4", "memory": "8Gi", "pods": "110"}).Obj()
	}
	return &usage.Config{Source: usage.PrometheusSource, Server: promapi.Server{Address: prometheus.URL}, Queries: map[string]string{"node_cpu": "cpu"}},
		node("idle"), node("hot")
}

// The costs of a step count the chosen node, too, where they are about measured usage: a placement changes neither.
func TestStepsCostMeasuredUsage(t *testing.T) {
	for objective, want := range map[string]float64{
		"usage-balance": 0.14375, // the CPU is used by 0.025 and 0.6, the memory alike: the mean of the standard deviations 0.2875 and 0
		"throttled":     0.5 / 3, // 2.5 cores are used, and another half was wanted
	} {
		t.Run(objective, func(t *testing.T) { costsMeasuredUsage(t, objective, want) })
	}
}

func costsMeasuredUsage(t *testing.T, objective string, want float64) {
	source, idle, hot := idleAndHot(t)
	profile := "learns-" + objective
	args := learning(t, 0)
	args.Learn.Objective, args.Usage = objective, source
	b, finish := newLearningBed(t, profile, args, idle, hot)
	for _, n := range []*v1.Node{idle, hot} {
		b.sched.Cache.AddNode(b.log, n)
	}
	measured := func() (n int) {
		for _, v := range b.learner.mirror.snapshot.Nodes {
			if v.Usage != nil {
				n++
			}
		}
		return n
	}
	pod := st.MakePod().Name("waiting").UID("waiting").SchedulerName(profile).Req(map[v1.ResourceName]string{"cpu": "500m"}).Obj()
	for range 1000 { // the first measurement is on its way
		cycle, node, ok := b.cycle(t, profile, pod)
		if !ok {
			t.Fatal("no node")
		}
		if measured() == 2 {
			b.sched.Profiles[profile].RunPostBindPlugins(b.ctx, cycle, pod, node)
			waitSent(t, profile, 1)
			break
		}
		b.sched.Profiles[profile].RunReservePluginsUnreserve(b.ctx, cycle, pod, node)
		time.Sleep(10 * time.Millisecond)
	}
	steps := finish()
	if len(steps) != 1 || math.Abs(steps[0].Before-want) > 1e-6 || steps[0].Before != steps[0].After {
		t.Errorf("%d steps: %+v, want one with the costs %v", len(steps), steps, want)
	}
}

// A profile with a source scores by what it measures. Requests say the opposite.
func TestProfileScoresByUsage(t *testing.T) {
	source, idle, hot := idleAndHot(t)
	big := st.MakePod().Name("big").UID("big").Node("idle").Req(map[v1.ResourceName]string{"cpu": "3"}).Obj()
	args := Args{Policy: "koordinator-load-aware", Preferences: preference.Off, Usage: source}
	b := newBed(t, "by-usage", args, idle, hot)
	b.sched.Cache.AddNode(b.log, idle)
	b.sched.Cache.AddNode(b.log, hot)
	big.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionTrue}} // long ago
	fatal.If(t, b.sched.Cache.AddPod(b.log, big))
	pod := st.MakePod().Name("waiting").UID("waiting").SchedulerName("by-usage").Req(map[v1.ResourceName]string{"cpu": "500m"}).Obj()
	chosen := ""
	for range 1000 { // the first measurement is on its way
		got, err := b.decide("by-usage", pod)
		fatal.If(t, err)
		if chosen = got.SuggestedHost; chosen == "idle" {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if chosen != "idle" {
		t.Errorf("the pod goes to %q, want the node that uses little", chosen)
	}
}

func TestArgsOfUsage(t *testing.T) {
	_, err := DecodeArgs(&runtime.Unknown{Raw: []byte(`{"policy": "peaks", "usage": {"source": "prometheus", "address": "prometheus:9090"}}`)}, "x")
	if err == nil || !strings.Contains(err.Error(), "in profile x: usage: address must be a URL") {
		t.Errorf("error %v", err)
	}
	a, err := DecodeArgs(&runtime.Unknown{Raw: []byte(`{"policy": "peaks", "usage": {"source": "metrics.k8s.io"}}`)}, "x")
	if err != nil || a.Usage.MaxAge.Duration != 3*time.Minute {
		t.Errorf("arguments %+v, error %v", a.Usage, err)
	}
}
