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
	"k8s.io/kubernetes/pkg/scheduler/framework"
	st "k8s.io/kubernetes/pkg/scheduler/testing"
	clocktesting "k8s.io/utils/clock/testing"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/kube"
	"gnnsched/internal/fatal"
	"gnnsched/internal/promapi"
)

// world is a node of a scheduler's snapshot with its mirror.
type world struct {
	view     *View
	store    *store
	clock    *clocktesting.FakeClock
	info     *framework.NodeInfo
	snapshot cluster.Snapshot
}

func newWorld(t *testing.T) *world {
	clk := clocktesting.NewFakeClock(time.Unix(100_000, 0))
	w := &world{store: newStore(config(t)), clock: clk, info: framework.NewNodeInfo()}
	w.view = newView(w.store, clk)
	w.info.SetNode(st.MakeNode().Name("a").Capacity(map[v1.ResourceName]string{"cpu": "4", "memory": "8Gi", "pods": "110"}).Obj())
	w.changed()
	return w
}

// changed replaces the mirror's node, as a change of it does.
func (w *world) changed() { w.snapshot.Nodes = []*cluster.Node{kube.Node(w.info.Node())} }

func (w *world) add(p *v1.Pod) {
	w.info.AddPod(p)
	w.changed()
}

func (w *world) attach(pending *v1.Pod) (*cluster.NodeUsage, *cluster.Pod) {
	pod, _ := kube.Pod(pending)
	w.view.Attach(&w.snapshot, []fwk.NodeInfo{w.info}, pending, &pod)
	return w.snapshot.Nodes[0].Usage, &pod
}

func (w *world) measure(cpu float64, pods map[string]string, samples ...podSample) {
	w.store.Observe(measurement{Nodes: both("a", cpu, 1<<30), Pods: samples}, false, seconds(w.clock.Now()), fakeDirectory{pods})
}

func web(name, uid string) *v1.Pod {
	p := st.MakePod().Namespace("ns").Name(name).UID(uid).Req(map[v1.ResourceName]string{"cpu": "1"}).
		Lim(map[v1.ResourceName]string{"cpu": "2"}).
		OwnerReference("web-5d8f", v1.SchemeGroupVersion.WithKind("ReplicaSet")).Label("pod-template-hash", "5d8f").Obj()
	controller := true
	p.OwnerReferences[0].Controller = &controller
	return p
}

func boundPod(p *v1.Pod, at time.Time) *v1.Pod {
	p.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionTrue, LastTransitionTime: metav1.NewTime(at)}}
	return p
}

func TestViewEstimatesNewPods(t *testing.T) {
	w := newWorld(t)
	begin := w.clock.Now()
	if u, _ := w.attach(web("x", "x")); u != nil {
		t.Errorf("before the first measurement: %+v", u)
	}
	w.add(boundPod(web("old", "old"), begin.Add(-time.Hour)))
	w.measure(1000, map[string]string{"ns/old": "ns/Deployment/web"}, podSample{"ns", "old", cluster.UsedCPU, 400})
	u, pod := w.attach(web("new", "new"))
	if u == nil || u.Missing[cluster.UsedCPU] != 0 || len(u.Recent) != 0 {
		t.Fatalf("an old pod is in the measurement: %+v", u)
	}
	if pod.Expected(cluster.UsedCPU) != 400 || pod.Limits.MilliCPU != 2000 {
		t.Errorf("pending pod %+v, usage %+v", pod, pod.Usage)
	}
	w.add(web("new", "new")) // assumed: it has no condition yet
	single := st.MakePod().Namespace("ns").Name("single").UID("single").Req(map[v1.ResourceName]string{"cpu": "300m"}).Obj()
	w.add(boundPod(single, begin.Add(time.Minute))) // a clock that is a minute ahead
	u, _ = w.attach(web("next", "next"))
	if u.Missing[cluster.UsedCPU] != 700 || len(u.Recent) != 2 || u.Recent[0].Limits.MilliCPU != 2000 {
		t.Errorf("two pods that nothing measured: %+v", u)
	}
	if got := w.snapshot.Nodes[0].Used(cluster.UsedCPU).Mean; got != 1700 {
		t.Errorf("used %v, want 1000 measured and 700 missing", got)
	}
	w.clock.Step(150 * time.Second) // half the window
	w.measure(1000, nil)
	u, _ = w.attach(web("next", "next"))
	if u.Missing[cluster.UsedCPU] != 350 {
		t.Errorf("half of them is in the mean: %+v", u)
	}
	w.clock.Step(151 * time.Second)
	w.measure(1700, nil)
	if u, _ = w.attach(web("next", "next")); u.Missing[cluster.UsedCPU] != 0 || len(u.Recent) != 0 {
		t.Errorf("all of them is in the mean: %+v", u)
	}
}

// Without new measurements, usage is dropped once it is too old.
func TestViewDropsStaleUsage(t *testing.T) {
	w := newWorld(t)
	w.measure(1000, nil)
	w.clock.Step(3 * time.Minute)
	if u, _ := w.attach(web("x", "x")); u == nil {
		t.Error("usage of three minutes is dropped")
	}
	w.clock.Step(time.Second)
	if u, _ := w.attach(web("x", "x")); u != nil {
		t.Errorf("usage of %v s is still there", w.snapshot.Now-u.At)
	}
	w.measure(2000, nil)
	if u, _ := w.attach(web("x", "x")); u == nil {
		t.Error("new usage is not there")
	}
}

func TestZeroViewAttachesNothing(t *testing.T) {
	w := newWorld(t)
	w.view = &View{}
	if u, pod := w.attach(web("x", "x")); u != nil || pod.Usage != nil || w.snapshot.Now != 0 {
		t.Errorf("usage %+v, pod %+v", u, pod)
	}
}

func TestWorkloadOf(t *testing.T) {
	for _, c := range []struct{ kind, owner, hash, want string }{
		{"ReplicaSet", "web-5d8f", "5d8f", "ns/Deployment/web"}, {"ReplicaSet", "web", "", "ns/ReplicaSet/web"},
		{"Job", "report-29384750", "", "ns/CronJob/report"}, {"Job", "report-7", "", "ns/Job/report-7"},
		{"Job", "29384750", "", "ns/Job/29384750"},
		{"StatefulSet", "db", "", "ns/StatefulSet/db"},
	} {
		p := web("p", "p")
		p.OwnerReferences[0].Kind, p.OwnerReferences[0].Name, p.Labels["pod-template-hash"] = c.kind, c.owner, c.hash
		if got, belongs := workloadOf(p); got != c.want || !belongs {
			t.Errorf("%s %s: %q, want %q", c.kind, c.owner, got, c.want)
		}
	}
	if key, belongs := workloadOf(st.MakePod().Name("x").Obj()); belongs {
		t.Errorf("a pod without owner belongs to %s", key)
	}
}

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
	view := fatal.Value(Start(ctx, &config, handle{factory: factory}, klog.Background()))(t)
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
