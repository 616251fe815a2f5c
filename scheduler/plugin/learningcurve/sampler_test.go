package learningcurve

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"google.golang.org/protobuf/proto"
	clocktesting "k8s.io/utils/clock/testing"

	"gnnsched/internal/fatal"
)

// metric returns a metric with labels given as name, value.
func metric(value float64, gauge bool, labels ...string) *dto.Metric {
	m := &dto.Metric{}
	for i := 0; i < len(labels); i += 2 {
		m.Label = append(m.Label, &dto.LabelPair{Name: proto.String(labels[i]), Value: proto.String(labels[i+1])})
	}
	if gauge {
		m.Gauge = &dto.Gauge{Value: proto.Float64(value)}
	} else {
		m.Counter = &dto.Counter{Value: proto.Float64(value)}
	}
	return m
}

func family(name string, of ...*dto.Metric) *dto.MetricFamily {
	return &dto.MetricFamily{Name: proto.String(name), Metric: of}
}

// The metrics of the profiles that learn are sampled, and none of a profile that does not.
func TestFigures(t *testing.T) {
	got := figuresOf([]*dto.MetricFamily{
		family("gnnsched_trainer_figure", metric(0.5, true, "profile", "gnn", "figure", "loss"),
			metric(7, true, "profile", "gnn", "figure", "sent"), metric(1, true, "profile", "other", "figure", "loss")),
		family("gnnsched_epsilon", metric(0.25, true, "profile", "gnn")),
		family("gnnsched_learning_steps_total", metric(10, false, "profile", "gnn", "result", "sent"),
			metric(2, false, "profile", "gnn", "result", "dropped"), metric(3, false, "profile", "gnn", "result", "new")),
		family("gnnsched_checkpoint_loads_total", metric(5, false, "profile", "gnn", "result", "ok"),
			metric(7, false, "profile", "gnn", "result", "error"), metric(9, false, "profile", "default", "result", "ok")),
		family("gnnsched_trainer_networks_total", metric(4, false, "profile", "gnn", "result", "passed")),
		family("gnnsched_trainer_updates_total", metric(40, false, "profile", "gnn")),
		family("process_cpu_seconds_total", metric(1, false)),
	})
	want := map[string]map[string]float64{"gnn": {"loss": 0.5, "epsilon": 0.25, "sent": 10, "dropped": 2, "loads": 5, "passed": 4,
		"updates": 40}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := figuresOf(nil); len(got) != 0 {
		t.Errorf("a scheduler that does not learn: %v", got)
	}
}

// Samples are taken every 10 s until the context ends, and the oldest are dropped. Columns stay of one length, whatever
// comes and goes.
func TestSampler(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Unix(1000, 0))
	var mu sync.Mutex
	sent := 0.0
	c := New(func() ([]*dto.MetricFamily, error) {
		mu.Lock()
		defer mu.Unlock()
		sent += 10
		all := []*dto.MetricFamily{family(learns, metric(sent, false, "profile", "gnn", "result", "sent"))}
		if sent > 30 {
			all = append(all, family("gnnsched_trainer_figure", metric(sent/100, true, "profile", "gnn", "figure", "loss")))
		}
		return all, errors.New("some metrics contradict each other")
	}, clock)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { c.Run(ctx) })
	taken := func(n int) Samples {
		for {
			if s := c.Samples(); len(s.Times) == n && clock.HasWaiters() {
				return s
			}
			time.Sleep(time.Millisecond)
		}
	}
	for n := range 5 {
		taken(n + 1)
		clock.Step(every)
	}
	s := taken(6)
	cancel()
	running.Wait()
	if want := []int64{1000, 1010, 1020, 1030, 1040, 1050}; !slices.Equal(s.Times, want) {
		t.Errorf("times %v", s.Times)
	}
	loss := s.Profiles["gnn"]["loss"]
	if len(loss) != 6 || !math.IsNaN(loss[2]) || loss[3] != 0.4 || s.Profiles["gnn"]["sent"][5] != 60 {
		t.Errorf("%v", s.Profiles)
	}
	loss[3] = 99
	if c.Samples().Profiles["gnn"]["loss"][3] == 99 {
		t.Error("samples are shared with the caller")
	}
	for range most {
		clock.Step(every)
		c.sample()
	}
	s = c.Samples()
	if len(s.Times) != most || s.Times[most-1] != 1050+10*most || len(s.Profiles["gnn"]["loss"]) != most ||
		s.Profiles["gnn"]["sent"][0] != 70 {
		t.Errorf("%d samples, the first with %v", len(s.Times), s.Profiles["gnn"]["sent"][0])
	}
	failing := New(func() ([]*dto.MetricFamily, error) { return nil, errors.New("nothing") }, clock)
	failing.sample()
	if s := failing.Samples(); len(s.Times) != 0 {
		t.Errorf("%+v", s)
	}
}

// Samples of a clock that is set back are served in order, and a figure that no sample knows any longer is dropped.
func TestClockSetBack(t *testing.T) {
	c := New(nil, nil)
	c.samples.add(100, map[string]map[string]float64{"gnn": {"sent": 1, "once": 1}, "gone": {"sent": 1}})
	c.samples.add(40, map[string]map[string]float64{"gnn": {"sent": 2}})
	c.samples.add(101, map[string]map[string]float64{"gnn": {"sent": 3}})
	text, err := json.Marshal(c.Samples())
	fatal.If(t, err)
	if s, err := Parse(text); err != nil || !slices.Equal(s.Times, []int64{100, 100, 101}) || len(s.Profiles["gnn"]) != 2 {
		t.Errorf("%+v, %v", s, err)
	}
	for i := range int64(most - 2) {
		c.samples.add(102+i, map[string]map[string]float64{"gnn": {"sent": 4}})
	}
	if s := c.Samples(); len(s.Times) != most || len(s.Profiles) != 1 || len(s.Profiles["gnn"]) != 1 || s.Profiles["gnn"]["sent"][0] != 2 {
		t.Errorf("%d samples of %d profiles, %d figures", len(s.Times), len(s.Profiles), len(s.Profiles["gnn"]))
	}
}

// What a scheduler serves is read as it was; one that does not learn serves nothing, and other text is refused.
func TestServe(t *testing.T) {
	c := New(nil, nil)
	c.samples.add(100, map[string]map[string]float64{"gnn": {"sent": 1 << 40, "cost": math.Inf(1)}})
	c.samples.add(110, map[string]map[string]float64{"gnn": {"sent": 1<<40 + 1, "loss": 0.1}})
	for name, x := range map[string]struct {
		c    *Sampler
		want string
	}{
		"learns": {c, `{"times":[100,110],"profiles":{"gnn":{"cost":[null,null],"loss":[null,0.1],"sent":[1099511627776,1099511627777]}}}` +
			"\n"},
		"not learns": {nil, `{"times":null,"profiles":null}` + "\n"},
	} {
		w := httptest.NewRecorder()
		x.c.ServeHTTP(w, httptest.NewRequest(http.MethodGet, Path, nil))
		if w.Code != http.StatusOK || w.Body.String() != x.want {
			t.Errorf("%s: %d, %s", name, w.Code, w.Body)
		}
		if s, err := Parse(w.Body.Bytes()); err != nil || len(s.Times) != len(x.c.Samples().Times) {
			t.Errorf("%s: %+v, %v", name, s, err)
		}
	}
	w := httptest.NewRecorder()
	c.ServeHTTP(w, httptest.NewRequest(http.MethodPost, Path, nil))
	if w.Code != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", w.Code)
	}
	for _, text := range []string{``, `[]`, `{"times":["a"]}`, `{"times":[2,1]}`, `{"times":[1],"profiles":{"gnn":{"loss":[1,2]}}}`,
		`{"times":[1],"profiles":{"gnn":{"loss":null}}}`, `{"times":[1],"profiles":{"gnn":{"loss":["NaN"]}}}`} {
		if s, err := Parse([]byte(text)); err == nil {
			t.Errorf("%s is %+v", text, s)
		}
	}
}

// Whatever Parse accepts has curves of the length of its times, and is written and read as the same.
func FuzzParse(f *testing.F) {
	f.Add(`{"times":[1,11],"profiles":{"gnn":{"sent":[1,null],"mine":[0.5,0.25]}}}`)
	f.Add(`{"times":[1,1],"profiles":{"":{"":[1e300,-1]}}}`)
	f.Fuzz(func(t *testing.T, text string) {
		s, err := Parse([]byte(text))
		if err != nil {
			return
		}
		for _, profile := range s.Names() {
			for _, c := range s.Curves(profile) {
				if len(c.Values) != len(s.Times) {
					t.Errorf("%s has %d values at %d times", c.Name, len(c.Values), len(s.Times))
				}
			}
		}
		once, err := json.Marshal(s)
		fatal.If(t, err)
		again, err := Parse(once)
		fatal.If(t, err)
		if twice, err := json.Marshal(again); err != nil || string(twice) != string(once) {
			t.Errorf("%s became %s, %v", once, twice, err)
		}
	})
}

// Counts become rates, every known figure has a curve, and a figure that only this trainer has comes last.
func TestCurves(t *testing.T) {
	s := Samples{Times: []int64{100, 110, 110, 140}, Profiles: map[string]map[string]Column{"gnn": {
		"sent": {10, 20, 25, 85}, "refused": {0, 0, 1, 1}, "zeta": {1, 2, 3, math.NaN()}, "loss": {4, 3, 2, 1}, "read": {1, 2, 3, 4},
	}}}
	var names []string
	for _, c := range s.Curves("gnn") {
		names = append(names, c.Name)
		if c.Name == "placements/min" && (!math.IsNaN(c.Values[0]) || c.Values[1] != 60 || !math.IsNaN(c.Values[2]) || c.Values[3] != 120) {
			t.Errorf("placements a minute: %v", c.Values)
		}
	}
	if want := []string{"loss", "networks refused", "placements/min", "zeta"}; !slices.Equal(names, want) {
		t.Errorf("curves %q, want %q", names, want)
	}
	if v, known := s.Last("gnn", "zeta"); v != 3 || !known {
		t.Errorf("the last known value is %v, %v", v, known)
	}
	if got := s.Totals("gnn"); len(got) != len(totals) || got[0].Title != "To the trainer" || *got[0].Count != 85 || got[1].Count != nil ||
		!s.Reported("gnn") || s.Reported("other") {
		t.Errorf("totals %+v", got)
	}
	if _, known := s.Last("gnn", "nothing"); known {
		t.Error("a figure that is not there is known")
	}
	listed := map[string]bool{"read": true}
	for _, f := range figures {
		if listed[f.name] || f.curve.Name == "" || f.curve.Chart == "" || f.curve.About == "" {
			t.Errorf("the figure %+v is listed twice or has no text", f)
		}
		listed[f.name] = true
	}
	for _, results := range counters {
		for _, name := range results {
			if !listed[name] {
				t.Errorf("the count %s has no curve", name)
			}
		}
	}
}
