package plugin

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	st "k8s.io/kubernetes/pkg/scheduler/testing"

	"gnnsched/scheduler/policy/preference"
	"gnnsched/scheduler/usage"
)

// A profile with a source scores by what it measures. Requests say the opposite.
func TestProfileScoresByUsage(t *testing.T) {
	prometheus := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := ""
		switch q := r.FormValue("query"); {
		case q == "cpu":
			answer = `{"metric":{"node":"idle"},"value":[1,"0.1"]},{"metric":{"node":"hot"},"value":[1,"2.4"]}`
		case strings.HasPrefix(q, "sum by (node, instance) (node_memory"):
			answer = `{"metric":{"node":"idle"},"value":[1,"1e9"]},{"metric":{"node":"hot"},"value":[1,"1e9"]}`
		}
		fmt.Fprintf(w, `{"status":"success","data":{"resultType":"vector","result":[%s]}}`, answer)
	}))
	defer prometheus.Close()
	node := func(name string) *v1.Node {
		return st.MakeNode().Name(name).Capacity(map[v1.ResourceName]string{"cpu": "4", "memory": "8Gi", "pods": "110"}).Obj()
	}
	idle, hot := node("idle"), node("hot")
	big := st.MakePod().Name("big").UID("big").Node("idle").Req(map[v1.ResourceName]string{"cpu": "3"}).Obj()
	args := Args{Policy: "koordinator-load-aware", Preferences: preference.Off, Usage: &usage.Config{
		Source: usage.PrometheusSource, Address: prometheus.URL, Queries: map[string]string{"node_cpu": "cpu"},
	}}
	b := newBed(t, "by-usage", args, idle, hot)
	b.sched.Cache.AddNode(b.log, idle)
	b.sched.Cache.AddNode(b.log, hot)
	big.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionTrue}} // long ago
	if err := b.sched.Cache.AddPod(b.log, big); err != nil {
		t.Fatal(err)
	}
	pod := st.MakePod().Name("waiting").UID("waiting").SchedulerName("by-usage").Req(map[v1.ResourceName]string{"cpu": "500m"}).Obj()
	chosen := ""
	for range 1000 { // the first measurement is on its way
		got, err := b.decide("by-usage", pod)
		if err != nil {
			t.Fatal(err)
		}
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
