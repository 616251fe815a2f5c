package plugin

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"
	testclock "k8s.io/utils/clock/testing"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/feature"
	"gnnsched/internal/fatal"
	"gnnsched/scheduler/policy/wish"
)

var (
	known = []checkpoint.Wish{{Term: "balance", Share: 0.5, Most: 1}, {Term: "energy", Share: 0.5, Most: 1}}
	usual = feature.Wishes{0.5, 0.5, 0}
)

// reader returns a reader for a profile of its own, its clock and its log. The namespace batch asks for energy.
func reader(t testing.TB, limits string) (*objectiveReader, *testclock.FakePassiveClock, *bytes.Buffer) {
	t.Helper()
	spaces := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	for _, n := range []*v1.Namespace{
		{ObjectMeta: metav1.ObjectMeta{Name: "batch", Annotations: map[string]string{annotation: "energy"}}},
		{ObjectMeta: metav1.ObjectMeta{Name: "web"}},
	} {
		fatal.If(t, spaces.Add(n))
	}
	var log bytes.Buffer
	ctx := klog.NewContext(t.Context(), textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(&log))))
	c := testclock.NewFakePassiveClock(time.Unix(1e9, 0))
	r, err := newObjectiveReader(ctx, t.Name(), limits, listers.NewNamespaceLister(spaces), c)
	fatal.If(t, err)
	return r, c, &log
}

func pod(namespace string, text ...string) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "p"}}
	if len(text) > 0 {
		p.Annotations = map[string]string{annotation: text[0]}
	}
	return p
}

func counted(t *testing.T, r *objectiveReader, result string) float64 {
	t.Helper()
	var m dto.Metric
	fatal.If(t, objectiveAnnotations.WithLabelValues(r.profile, result).(prometheus.Metric).Write(&m))
	return m.GetCounter().GetValue()
}

// The pod's own annotation comes before its namespace's, and both only within the limits.
func TestAnnotations(t *testing.T) {
	r, _, _ := reader(t, "balance=0:1,energy=0:0.8")
	for _, c := range []struct {
		pod  *v1.Pod
		want feature.Wishes
	}{
		{pod("web"), usual},
		{pod("gone"), usual},
		{pod("web", "balance"), feature.Wishes{1, 0, 0}},
		{pod("web", "balance=1,energy=7.5"), feature.Wishes{0.25, 0.75, 0}},
		{pod("web", "balance=1,energy=75"), usual},
		{pod("batch"), usual}, // the namespace asks for more than the limit
		{pod("batch", "balance"), feature.Wishes{1, 0, 0}},
		{pod("web", "pack"), usual},
		{nil, usual},
	} {
		if got := r.Of(c.pod, known, usual); !wish.Near(got, c.want) {
			t.Errorf("%+v: %v, want %v", c.pod, got, c.want)
		}
	}
	if served, refused := counted(t, r, "served"), counted(t, r, "refused"); served != 3 || refused != 3 {
		t.Errorf("%v served, %v refused", served, refused)
	}
	wide, _, _ := reader(t, "energy=0:1")
	if got := wide.Of(pod("batch"), known, usual); got != (feature.Wishes{0, 1, 0}) {
		t.Errorf("the namespace's objective is %v", got)
	}
	if got := wide.Of(pod("batch"), nil, usual); got != usual {
		t.Errorf("a network of one objective got %v", got)
	}
	if got := (*objectiveReader)(nil).Of(pod("batch"), known, usual); got != usual {
		t.Errorf("without limits an annotation counts: %v", got)
	}
}

// A flood of hostile values is counted, kept in bounded memory, and logged once a minute in one short line.
func TestHostileAnnotations(t *testing.T) {
	r, c, log := reader(t, "balance=0:1,energy=0:1")
	for i := range 2000 {
		if got := r.Of(pod("web", fmt.Sprintf("x%d\n\x1b[31m%s", i, strings.Repeat("é", i))), known, usual); got != usual {
			t.Fatal(got)
		}
	}
	if n := len(r.answers); n > maxKnown {
		t.Errorf("%d texts are kept", n)
	}
	if n := counted(t, r, "refused"); n != 2000 {
		t.Errorf("%v refused", n)
	}
	if lines := strings.Count(log.String(), "\n"); lines != 1 || log.Len() > 1000 || strings.Contains(log.String(), "\x1b") {
		t.Errorf("%d lines: %q", lines, log.String())
	}
	c.SetTime(c.Now().Add(logRefusalAgain))
	r.Of(pod("web", "?"), known, usual)
	if lines := strings.Count(log.String(), "\n"); lines != 2 {
		t.Errorf("%d lines after a minute", lines)
	}
}

// Whatever the annotation says, the objective is the usual one or within the limits.
func FuzzAnnotation(f *testing.F) {
	for _, text := range []string{"energy", "balance=1,energy=0.3", "", "balance=NaN", "energy=1e999", "balance=1e-320,energy=1e308", "\x00",
		strings.Repeat("balance,", 100)} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, _, _ := reader(t, "balance=0.25:1,energy=0:0.75")
		got := r.Of(pod("web", text), known, usual)
		if got != usual && r.limits.Check(got) != nil || got[2] != 0 {
			t.Fatalf("%q: %v", text, got)
		}
	})
}
