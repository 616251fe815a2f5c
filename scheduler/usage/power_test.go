package usage

import (
	"math"
	"math/rand/v2"
	"net/http/httptest"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"pgregory.net/rapid"

	corelisters "k8s.io/client-go/listers/core/v1"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/kube"
)

// poweredNodes has the node a with 4 cores and a model of its own.
type poweredNodes struct {
	fakeDirectory
	model *cluster.PowerModel
	gpus  int64
}

func (p poweredNodes) Nodes() map[string]nodeInfo {
	return map[string]nodeInfo{"a": {Name: "a", Allocatable: cluster.Resources{MilliCPU: 4000, Memory: 8 << 30, GPU: p.gpus}, Power: p.model}}
}

// machineRoom plays measurements of the node a, 15 seconds apart.
type machineRoom struct {
	*store
	poweredNodes
	now float64
}

func newMachineRoom(t testing.TB, nodes poweredNodes) *machineRoom {
	return &machineRoom{newStore(config(t)), nodes, 100_000}
}

// measure takes in a node's use, as a fraction of its CPU, and its power; no watts if there are none.
func (r *machineRoom) measure(used float64, watts ...float64) outcome {
	r.now += 15
	m := measurement{Nodes: both("a", 4000*used, 1<<30)}
	for _, w := range watts {
		m.Watts = append(m.Watts, nodeValue{[]string{"a"}, w})
	}
	return r.Observe(m, false, r.now, r.poweredNodes)
}

// spread takes in n measurements of a machine with uses from 0.1 to 0.7, after some that do not count.
func (r *machineRoom) spread(n int, draws func(used float64) float64) (out outcome) {
	for r.now < 100_000+fitFrom {
		r.measure(0.9, 1500)
	}
	for i := range n {
		used := 0.1 + 0.2*float64(i%4)
		out = r.measure(used, draws(used))
	}
	return out
}

func line(idle, full float64) func(float64) float64 {
	return func(used float64) float64 { return idle + (full-idle)*used }
}

func (r *machineRoom) model() cluster.PowerModel {
	u := r.current().Nodes["a"]
	if u != nil && r.now-u.At > r.config.MaxAge.Seconds() {
		u = nil // as a view does
	}
	return cluster.MachinePower(&cluster.Node{Allocatable: cluster.Resources{MilliCPU: 4000}, Power: r.poweredNodes.model, Usage: u})
}

func same(a, b float64) bool { return math.Abs(a-b) < 1e-6*max(1, math.Abs(b)) }

// A curve follows from measured watts, within the bounds of a machine and in the form of its declared curve.
func TestPowerIsCalibrated(t *testing.T) {
	asleep := 4.0
	bent := &cluster.PowerModel{Idle: 100, Full: 200, Curve: []float64{180}, Sleep: &asleep}
	for name, c := range map[string]struct {
		declared *cluster.PowerModel
		draws    func(float64) float64
		idle     float64
		half     float64
		full     float64
	}{
		"a line, against the default":       {nil, line(60, 240), 60, 150, 240},
		"a line, against the annotation":    {&cluster.PowerModel{Idle: 10, Full: 20}, line(60, 240), 60, 150, 240},
		"the form of the annotation stays":  {bent, func(u float64) float64 { return 2*bent.At(u) - 50 }, 150, 310, 350},
		"less with more use: its mean":      {nil, line(240, 60), 168, 168, 168},
		"below zero: through the origin":    {nil, line(-10, 190), 0, 90.4761904762, 180.9523809524},
		"a machine without a range":         {&cluster.PowerModel{Idle: 50, Full: 50, Curve: []float64{50}}, line(60, 240), 60, 150, 240},
		"it draws much more than its model": {&cluster.PowerModel{Idle: 10, Full: 20}, line(500, 1500), 500, 1000, 1500},
	} {
		t.Run(name, func(t *testing.T) {
			r := newMachineRoom(t, poweredNodes{model: c.declared})
			if out := r.spread(fitSamples-1, c.draws); out.Power.Nodes[powerGathering] != 1 || r.current().Nodes["a"].Power != nil {
				t.Errorf("after %d samples: %v", fitSamples-1, out.Power)
			}
			out := r.spread(1, c.draws)
			for range fitSamples { // the samples go on, and the weights fade
				out = r.spread(4, c.draws)
			}
			m := r.model()
			if !near(m, c.idle, c.half, c.full) {
				t.Errorf("got %+v, at half %v, want %v, %v, %v", m, m.At(0.5), c.idle, c.half, c.full)
			}
			if err := m.Validate(); err != nil {
				t.Error(err)
			}
			if c.declared == bent && *m.Sleep != asleep {
				t.Errorf("asleep it draws %v", *m.Sleep)
			}
			if p := out.Power; p.Nodes[powerCalibrated] != 1 || !same(p.Measured, c.draws(0.7)) || out.Rejected != 0 {
				t.Errorf("outcome %+v", p)
			}
		})
	}
}

// near compares a model, with a tolerance of the step by which a curve may lag behind its samples.
func near(m cluster.PowerModel, idle, half, full float64) bool {
	off := max(math.Abs(m.Idle-idle), math.Abs(m.At(0.5)-half), math.Abs(m.Full-full))
	return off <= fitStep*full
}

// A node whose watts are not known, or of one use only, draws by its annotation.
func TestPowerDegrades(t *testing.T) {
	declared := &cluster.PowerModel{Idle: 50, Full: 100}
	good := line(60, 240)
	late := func(r *machineRoom, watts ...float64) (out outcome) {
		for range 13 { // 195 s
			out = r.measure(0.5, watts...)
		}
		return out
	}
	for name, c := range map[string]struct {
		gpus     int64
		play     func(*machineRoom) outcome
		state    powerState
		lost     bool // at the last measurement
		rejected int
	}{
		"wide spread":        {0, func(r *machineRoom) outcome { return r.spread(40, good) }, powerCalibrated, false, 0},
		"one use":            {0, func(r *machineRoom) outcome { return late(r, 150) }, powerGathering, false, 0},
		"never measured":     {0, func(r *machineRoom) outcome { return late(r) }, powerState(usageAbsent), false, 0},
		"no longer measured": {0, func(r *machineRoom) outcome { r.spread(40, good); return late(r) }, powerState(usageStale), true, 0},
		"a pause":            {0, func(r *machineRoom) outcome { r.spread(40, good); return r.measure(0.5) }, powerCalibrated, false, 0},
		"zero":               {0, func(r *machineRoom) outcome { return r.measure(0.5, 0) }, powerState(usageInvalid), false, 1},
		"negative":           {0, func(r *machineRoom) outcome { return r.measure(0.5, -1) }, powerState(usageInvalid), false, 1},
		"NaN": {0, func(r *machineRoom) outcome { r.spread(40, good); return late(r, math.NaN()) }, powerState(usageInvalid),
			true, 1},
		"infinite": {0, func(r *machineRoom) outcome { return r.measure(0.5, math.Inf(1)) }, powerState(usageInvalid), false, 1},
		"impossibly large": {0, func(r *machineRoom) outcome { r.spread(40, good); return late(r, 2001) }, powerState(usageInvalid), true,
			1},
		"one of two is possible": {0, func(r *machineRoom) outcome { r.spread(40, good); return late(r, 150, -5) }, powerCalibrated, false, 1},
		"the source fails": {0, func(r *machineRoom) outcome {
			r.spread(40, good)
			r.now += 200
			return r.Observe(measurement{}, true, r.now, r.poweredNodes)
		}, powerState(usageFailed), true, 0},
		"GPUs": {2, func(r *machineRoom) outcome { return r.spread(40, good) }, powerGPU, false, 0},
		"another's names": {0, func(r *machineRoom) outcome {
			r.now += 15
			return r.Observe(measurement{Watts: []nodeValue{{[]string{"z", "9.9.9.9"}, 100}}}, false, r.now, r.poweredNodes)
		}, powerState(usageAbsent), false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			r := newMachineRoom(t, poweredNodes{model: declared, gpus: c.gpus})
			out := c.play(r)
			if out.Power.Nodes[c.state] != 1 || len(out.Power.Nodes) != 1 || out.Rejected != c.rejected {
				t.Errorf("nodes %v, rejected %d; want %s, %d", out.Power.Nodes, out.Rejected, c.state, c.rejected)
			}
			if got := len(out.Power.Lost[c.state]) == 1; got != c.lost {
				t.Errorf("lost %v, want %v", out.Power.Lost, c.lost)
			}
			if m := r.model(); (m.Full != 100) != (c.state == powerCalibrated) {
				t.Errorf("model %+v", m)
			}
		})
	}
}

// A machine that sleeps is no point of the curve.
func TestPowerAsleep(t *testing.T) {
	asleep := 5.0
	r := newMachineRoom(t, poweredNodes{model: &cluster.PowerModel{Idle: 50, Full: 100, Sleep: &asleep}})
	for range 10 {
		r.spread(4, line(60, 240))
		r.measure(0.01, asleep)
	}
	if m := r.model(); !near(m, 60, 150, 240) {
		t.Errorf("model %+v", m)
	}
}

// When another model is declared, it counts at once, and a curve in its form follows from new samples alone.
func TestPowerIsDeclaredAnew(t *testing.T) {
	old := &cluster.PowerModel{Idle: 50, Full: 100, Curve: []float64{90}}
	asleep := 5.0
	for name, c := range map[string]struct {
		declared *cluster.PowerModel
		anew     bool
	}{
		"another curve":  {&cluster.PowerModel{Idle: 50, Full: 100, Curve: []float64{60}}, true},
		"another range":  {&cluster.PowerModel{Idle: 50, Full: 120, Curve: []float64{90}}, true},
		"it sleeps":      {&cluster.PowerModel{Idle: 50, Full: 100, Curve: []float64{90}, Sleep: &asleep}, true},
		"no annotation":  {nil, true},
		"the same again": {&cluster.PowerModel{Idle: 50, Full: 100, Curve: []float64{90}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := newMachineRoom(t, poweredNodes{model: old})
			r.spread(40, func(u float64) float64 { return 2 * old.At(u) })
			if m := r.model(); m.Full < 180 {
				t.Fatalf("no curve: %+v", m)
			}
			r.poweredNodes.model = c.declared
			out := r.measure(0.5) // without watts
			if gathering := out.Power.Nodes[powerGathering] == 1; gathering != c.anew {
				t.Fatalf("states %v", out.Power.Nodes)
			}
			want := cluster.MachinePower(&cluster.Node{Allocatable: cluster.Resources{MilliCPU: 4000}, Power: c.declared})
			if m := r.model(); m.Equal(&want) != c.anew {
				t.Errorf("got %+v, declared %+v", m, want)
			}
			r.spread(fitSamples, func(u float64) float64 { return 3 * want.At(u) })
			if m := r.model(); c.anew && !near(m, 3*want.Idle, 3*want.At(0.5), 3*want.Full) {
				t.Errorf("got %+v, half %v, want three times %+v", m, m.At(0.5), want)
			}
		})
	}
}

// Present measurements outweigh those from days ago.
func TestPowerForgets(t *testing.T) {
	r := newMachineRoom(t, poweredNodes{})
	r.spread(400, line(60, 240))
	r.now += 10 * fitHalfLife
	r.spread(400, line(100, 200))
	if m := r.model(); !near(m, 100, 150, 200) {
		t.Errorf("model %+v", m)
	}
}

// For any measurements, the model is possible for a machine.
func TestPowerIsAlwaysPossible(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		sleep := rapid.Float64Range(0, 50).Draw(rt, "sleep")
		r := newMachineRoom(t, poweredNodes{model: &cluster.PowerModel{
			Idle: 50, Full: 100, Curve: []float64{rapid.Float64Range(0, 100).Draw(rt, "curve")}, Sleep: &sleep,
		}})
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 0))
		for range 60 {
			r.measure(rng.Float64()*1.5, 2000*math.Pow(rng.Float64(), 4))
			if m := r.model(); m.Validate() != nil {
				rt.Fatalf("%+v: %v", m, m.Validate())
			}
		}
	})
}

// A node gets a new version when its curve changes, and only then: caches go by it, and a scrape must not empty them.
func TestPowerChangesTheVersion(t *testing.T) {
	w := newWorld(t)
	changes, last := 0, cluster.Version(0)
	for i := range 60 {
		w.clock.Step(15 * time.Second)
		used := 0.1 + 0.2*float64(i%4)
		m := measurement{Nodes: both("a", 4000*used, 1<<30), Watts: []nodeValue{{[]string{"a"}, line(60, 240)(used)}}}
		w.store.Observe(m, false, seconds(w.clock.Now()), fakeDirectory{})
		w.attach(web("x", "x"))
		if v := w.snapshot.Nodes[0].Version; v != last {
			changes, last = changes+1, v
		}
	}
	if u := w.snapshot.Nodes[0].Usage; changes != 2 || u.Power == nil {
		t.Errorf("%d versions, want that of the node and that of its curve; usage %+v", changes, u)
	}
	w.clock.Step(time.Hour)
	if w.attach(web("x", "x")); w.snapshot.Nodes[0].Version == last {
		t.Error("the curve is out of use, and the version the same")
	}
}

// The default query takes Kepler's or node-exporter's metrics; labels identify the node.
func TestPrometheusWatts(t *testing.T) {
	f := &fakePrometheus{vector: func(query string) string {
		if query == defaultQueries[wattsQuery] {
			return sample(`"node_name":"b","instance":"10.9.9.9:28282"`, "120") + "," +
				sample(`"exported_instance":"a","instance":"10.9.9.8:9103"`, "80") +
				"," + sample(`"instance":"10.0.0.1:9100"`, "90")
		}
		return twoNodes(query)
	}}
	p, _ := start(t, Config{}, httptest.NewServer(f))
	p.poll(t.Context(), klog.Background())
	if a, b := p.store.nodes["a"].power, p.store.nodes["b"].power; a.watts != 90 || a.at != 99_990 || b.watts != 120 ||
		b.state != powerGathering {
		t.Errorf("a %+v\nb %+v", a, b)
	}
}

// The directory knows an annotation's model; a faulty annotation counts as none.
func TestDirectoryKnowsPower(t *testing.T) {
	nodes := cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil)
	for name, text := range map[string]string{"good": `{"idle": 60, "full": 240}`, "bad": `{"idle": -1}`} {
		_ = nodes.Add(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{kube.PowerAnnotation: text}}})
	}
	got := directoryOf(corelisters.NewNodeLister(nodes), nil).Nodes()
	if got["good"].Power == nil || got["good"].Power.Full != 240 || got["bad"].Power != nil {
		t.Errorf("%+v", got)
	}
}
