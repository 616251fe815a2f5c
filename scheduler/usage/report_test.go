package usage

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"gnnsched/internal/promapi"
)

// A report names the nodes scored by requests, with the reasons, and the age of the newest value.
func TestReport(t *testing.T) {
	s := newStore(config(t))
	if d := cmp.Diff(Report{Source: s.config.Source, Named: []Degraded{}}, s.current().Report); d != "" {
		t.Errorf("before the first measurement: %s", d)
	}
	at := func(now float64, m measurement, failed bool) Report {
		s.Observe(m, failed, now, fakeDirectory{})
		return s.current().Report
	}
	only := func(name string) measurement { return measurement{Nodes: both(name, 1000, 1<<30)} }
	for _, c := range []struct {
		name string
		got  Report
		want Report
	}{
		{"one node is measured", at(100_000, only("a"), false),
			Report{Polled: 100_000, Newest: 100_000, Measured: 1, Degraded: 1, Named: []Degraded{{"b", "absent"}}}},
		{"both are", at(100_015, measurement{Nodes: append(only("a").Nodes, only("b").Nodes...)}, false),
			Report{Polled: 100_015, Newest: 100_015, Measured: 2, Named: []Degraded{}}},
		{"one is no more", at(100_300, only("a"), false),
			Report{Polled: 100_300, Newest: 100_300, Measured: 1, Degraded: 1, Named: []Degraded{{"b", "stale"}}}},
		{"the source does not answer for long", at(101_000, measurement{}, true),
			Report{Polled: 101_000, Newest: 100_300, Failed: true, Degraded: 2, Named: []Degraded{{"a", "failed"}, {"b", "failed"}}}},
	} {
		c.want.Source = s.config.Source
		if d := cmp.Diff(c.want, c.got); d != "" {
			t.Errorf("%s: %s", c.name, d)
		}
	}
}

// The reports of the asked sources are served and read back equal.
func TestServeReports(t *testing.T) {
	s := newStore(config(t))
	s.Observe(measurement{Nodes: both("a", 1000, 1<<30)}, false, 100_000, fakeDirectory{})
	key := startedKey{config: t.Name()}
	started.Store(key, s)
	defer started.Delete(key)
	w := httptest.NewRecorder()
	ServeReports(w, httptest.NewRequest(http.MethodGet, Path, nil))
	got, err := ParseReports(w.Body.Bytes())
	if d := cmp.Diff(Reports(), got); err != nil || d != "" || len(got) == 0 {
		t.Errorf("error %v, %s", err, d)
	}
	w = httptest.NewRecorder()
	ServeReports(w, httptest.NewRequest(http.MethodPost, Path, nil))
	if w.Code != http.StatusMethodNotAllowed {
		t.Errorf("status %d of a POST", w.Code)
	}
	for _, text := range []string{"", "{}", `[{}]`, `[{"source":"x","measured":-1}]`, `[{"source":"x","named":[{"node":"a"}]}]`,
		strings.Repeat("[", 99)} {
		if _, err := ParseReports([]byte(text)); err == nil {
			t.Errorf("%q is read", text)
		}
	}
}

// handle stands for a scheduler's handle.
type handle struct {
	fwk.Handle
	factory informers.SharedInformerFactory
}

func (h handle) SharedInformerFactory() informers.SharedInformerFactory { return h.factory }
func (h handle) KubeConfig() *rest.Config                               { return nil }
func (h handle) SnapshotSharedLister() fwk.SharedLister                 { return nil }

// A measurement before the scheduler knows the nodes would be lost, and the next one is 15 s away.
func TestStartWaitsForTheNodes(t *testing.T) {
	asked := atomic.Int32{}
	prometheus := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		fmt.Fprint(w, `{"status":"success","data":{"resultType":"vector","result":[{"metric":{"node":"a"},"value":[1,"1"]}]}}`)
	}))
	defer prometheus.Close()
	node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	factory := informers.NewSharedInformerFactory(fake.NewClientset(node), 0)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	config := Config{Source: PrometheusSource, Server: promapi.Server{Address: prometheus.URL}}
	view, err := Start(ctx, &config, handle{factory: factory}, klog.Background())
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(100 * time.Millisecond)
	if n := asked.Load(); n > 0 {
		t.Errorf("%d queries before the nodes are known", n)
	}
	factory.Start(ctx.Done())
	for deadline := time.Now().Add(10 * time.Second); len(view.store.current().Nodes) == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the first measurement has no node")
		}
	}
}
