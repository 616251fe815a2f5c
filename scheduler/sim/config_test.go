package sim

import (
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
	strictjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"gnnsched/internal/cluster"
	"gnnsched/internal/each"
	"gnnsched/internal/fatal"
	"gnnsched/scheduler/objective"
	"gnnsched/workload"
)

func TestValidate(t *testing.T) {
	fatal.If(t, config().Validate())
	for _, c := range []struct {
		want  string
		spoil func(*Config)
	}{
		{"nodes: 0 to 5 is no range", func(c *Config) { c.Nodes = IntRange{0, 5} }},
		{"nodes: 5 to 4", func(c *Config) { c.Nodes = IntRange{5, 4} }},
		{"within 1 to 10000", func(c *Config) { c.Nodes = Exactly(10_001) }},
		{"sizes: give at least one", func(c *Config) { c.Sizes = nil }},
		{"sizes[1]: a node offers", func(c *Config) { c.Sizes[1].Allocatable.Pods = 0 }},
		{"sizes[0]: weight NaN", func(c *Config) { c.Sizes[0].Weight = math.NaN() }},
		{"sizeKinds: 1 to 4 is no range within 0 to 3", func(c *Config) { c.SizeKinds = IntRange{1, 4} }},
		{"zones: -1", func(c *Config) { c.Zones = IntRange{-1, 4} }},
		{"initial: 0.4 must be", func(c *Config) { c.Initial = c.Load.Min }},
		{"shapes: no shape", func(c *Config) { c.Shapes = nil }},
		{"shapes[1]: \"web\" is the name", func(c *Config) { c.Shapes[1].Name = "web" }},
		{"shapes[2]: weight 0", func(c *Config) { c.Shapes[2].Weight = 0 }},
		{"shapeKinds: 1 to 9", func(c *Config) { c.ShapeKinds = IntRange{1, 9} }},
		{"replicas: is missing or 0; it says how many pods a deployment has", func(c *Config) { c.Replicas = IntRange{} }},
		{"load: is missing or 0", func(c *Config) { c.Load, c.Initial = FloatRange{}, 0 }},
		{"replicas 0 to 3", func(c *Config) { c.Replicas = IntRange{0, 3} }},
		{"load 3 must be", func(c *Config) { c.Load.Max = 3 }},
		{"load: 0.9 to 0.5 is no range", func(c *Config) { c.Load = FloatRange{0.9, 0.5} }},
		{"turnover: -1", func(c *Config) { c.Turnover = -1 }},
		{"objective: term balance occurs twice", func(c *Config) { c.Objective = append(c.Objective, c.Objective...) }},
		{`preferences is "blend"; there are first, declared, off`, func(c *Config) { c.Preferences = "blend" }},
		{"waitCost: -1", func(c *Config) { c.WaitCost = -1 }},
	} {
		cfg := config()
		cfg.Sizes = slices.Clone(cfg.Sizes)
		c.spoil(&cfg)
		if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q in it", err, c.want)
		}
	}
}

// A configuration survives a round trip through JSON, the form in which checkpoints keep it.
func TestConfigRoundTrip(t *testing.T) {
	b := fatal.Value(json.Marshal(config()))(t)
	var again Config
	fatal.If(t, json.Unmarshal(b, &again))
	if d := cmp.Diff(config(), again); d != "" {
		t.Error(d)
	}
}

// All draws are within the configuration, and every allowed value occurs.
func TestDraws(t *testing.T) {
	c := config()
	c.SizeKinds, c.ShapeKinds = IntRange{1, 2}, IntRange{2, 3}
	nodes := map[int]bool{}
	zones := map[string]bool{}
	sizes := map[cluster.Resources]bool{}
	shapes := map[cluster.Resources]bool{}
	for seed := range uint64(60) {
		e := newEnv(t, c, seed)
		all := e.snapshot.Nodes
		nodes[len(all)-1] = true
		if all[0].Available() || !all[1].Available() {
			t.Fatalf("seed %d: the first node is to be the control plane, alone", seed)
		}
		here := map[cluster.Resources]bool{}
		for _, n := range all[1:] {
			zones[n.Zone] = true
			here[n.Allocatable] = true
			sizes[n.Allocatable] = true
		}
		kinds := map[int32]bool{}
		for _, d := range e.arrivals.deployments {
			kinds[d.shape], shapes[d.pod.Requests] = true, true
			if n := count(e.arrivals.pods, d.pod.Name, e); n < 1 || n > 9 {
				t.Fatalf("seed %d: %s has %d pods", seed, d.pod.Name, n)
			}
		}
		if len(here) > 2 || len(kinds) > 3 {
			t.Fatalf("seed %d: %d sizes and %d shapes", seed, len(here), len(kinds))
		}
	}
	if len(nodes) != 6 || len(zones) != 4 || len(sizes) != 3 || len(shapes) != 5 {
		t.Errorf("of all draws: %d numbers of nodes, %d zones, %d sizes, %d shapes", len(nodes), len(zones), len(sizes), len(shapes))
	}
}

func count(pods []int32, name string, e *Env) int {
	return each.Count(pods, func(p int32) bool { return e.arrivals.deployments[p].pod.Name == name })
}

// The load before the first arrival is random and never over Config.Initial.
func TestInitialLoad(t *testing.T) {
	c := config()
	c.Nodes = Exactly(200)
	c.Initial = 0.35
	c.Load = FloatRange{0.4, 0.4}
	nodes := c.drawNodes(1)
	c.drawInitial(1, nodes, c.Shapes)
	var loads []float64
	for _, n := range nodes[1:] {
		l := workload.LoadOf(n.Requested, n.Allocatable)
		loads = append(loads, max(l.CPU, l.Memory, l.Pods))
	}
	slices.Sort(loads)
	if loads[199] > 0.35 || loads[199] < 0.25 || loads[100] < 0.05 || loads[100] > 0.25 || nodes[0].Requested.Pods != 0 {
		t.Errorf("loads from %.2f over %.2f to %.2f", loads[0], loads[100], loads[199])
	}
}

// Departures come in order of time, and in order of arrival at equal times.
func TestDepartures(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var h departures
		var all []departure
		for i, at := range rapid.SliceOf(rapid.IntRange(0, 9)).Draw(t, "times") {
			d := departure{at: float64(at), pod: int32(i)}
			h.push(d)
			all = append(all, d)
		}
		slices.SortFunc(all, func(a, b departure) int {
			if a.before(b) {
				return -1
			}
			return 1
		})
		for _, want := range all {
			if got := h.pop(); got != want {
				t.Fatalf("popped %+v, want %+v", got, want)
			}
		}
	})
}

// A seed must give the same episode in every version, or results would not be comparable.
func TestSeedsGolden(t *testing.T) {
	var outcomes []Outcome
	for seed := range uint64(3) {
		e := newEnv(t, config(), seed)
		for rng := rand.New(rand.NewPCG(seed, 1)); !e.Done(); {
			e.Step(rng.IntN(len(e.Candidates())))
		}
		o := e.Outcome()
		for _, v := range []*float64{&o.CPUVariance, &o.CPUStd, &o.MemoryStd, &o.Imbalance, &o.Cost, &o.MeanNodesInUse, &o.Pending, &o.Room,
			&o.Waiting, &o.Fragmentation, &o.ZoneStd} {
			*v = math.Round(*v*1e9) / 1e9 // ignores rounding errors
		}
		outcomes = append(outcomes, o)
	}
	got := fatal.Value(json.MarshalIndent(outcomes, "", "  "))(t)
	fatal.Golden(t, "seeds.json", string(got)+"\n")
}

// Step allocates no memory; only Reset does.
func TestStepDoesNotAllocate(t *testing.T) {
	for _, p := range []string{steady, poisson, diurnal} {
		c := config()
		c.Nodes = Exactly(60)
		c.Turnover = 2
		c.Arrivals.Process = p
		e := newEnv(t, c, 1)
		for range 300 { // until the buffers have their size
			e.Step(0)
		}
		steps := 0
		if n := testing.AllocsPerRun(400, func() {
			e.Step(steps % len(e.Candidates()))
			steps++
		}); n > 0.05 {
			t.Errorf("%s: %v allocations a step", p, n)
		}
	}
}

// No two nodes of any episodes or environments have the same version, so caches never mistake one
// for another.
func TestVersionsAreUnique(t *testing.T) {
	a, b := newEnv(t, config(), 1), newEnv(t, config(), 1)
	first := a.snapshot.Nodes[0].Version
	fatal.If(t, a.Reset(1))
	if v := a.snapshot.Nodes[0].Version; v == first || v == b.snapshot.Nodes[0].Version || first == b.snapshot.Nodes[0].Version {
		t.Error("a version is used twice")
	}
}

func TestMeasure(t *testing.T) {
	full := cluster.Resources{MilliCPU: 1000, Memory: 1000, Pods: 10}
	nodes := []*cluster.Node{
		{Allocatable: full, Requested: cluster.Resources{MilliCPU: 200, Memory: 500, Pods: 1}},
		{Allocatable: full, Requested: cluster.Resources{MilliCPU: 600, Memory: 500, Pods: 2}},
		{Allocatable: full, Requested: cluster.Resources{MilliCPU: 1000, Memory: 900, Pods: 3}, Unschedulable: true},
	}
	got := Measure(nodes)
	if math.Abs(got.CPUVariance-0.04) > 1e-12 || math.Abs(got.CPUStd-0.2) > 1e-12 || got.MemoryStd != 0 || got.NodesInUse != 2 ||
		got.Nodes != 2 {
		t.Errorf("%+v", got)
	}
	if math.Abs(got.Imbalance-objective.Balance{}.Cost(nodes)) > 1e-12 {
		t.Errorf("imbalance %v", got.Imbalance)
	}
	if got := Measure(nil); got != (Outcome{}) {
		t.Errorf("of nothing: %+v", got)
	}
}

// decode reads a configuration as the evaluation's scenario files do.
func decode(text string) (c Config, err error) {
	j, err := yaml.YAMLToJSONStrict([]byte(text))
	if err != nil {
		return c, err
	}
	strict, err := strictjson.UnmarshalStrict(j, &c)
	return c, errors.Join(append(strict, err)...)
}

// The example in Config's comment is a valid configuration and survives a round trip through YAML.
func TestExampleInComment(t *testing.T) {
	source := fatal.Value(os.ReadFile("config.go"))(t)
	var text strings.Builder
	for _, m := range regexp.MustCompile(`(?m)^//\t(.*)$`).FindAllStringSubmatch(string(source), -1) {
		text.WriteString(m[1] + "\n")
	}
	c := fatal.Value(decode(text.String()))(t)
	newEnv(t, c, 1)
	if c.Pools[0].Allocatable.GPU != 8 || c.Shapes[1].Requests.Memory != 32<<30 || c.Load != (FloatRange{0.8, 0.8}) ||
		c.Zones != Exactly(3) || c.Arrivals.Size != 0.1 || c.Shapes[1].Tolerations[0].Exists != true {
		t.Errorf("%+v", c)
	}
	again := fatal.Value(yaml.Marshal(c))(t)
	d := fatal.Value(decode(string(again)))(t)
	if diff := cmp.Diff(c, d); diff != "" {
		t.Error(diff)
	}
}

func TestDecodeRefuses(t *testing.T) {
	for say, text := range map[string]string{
		`unknown field "most"`:                                     "nodes: {min: 1, most: 2}",
		`"cpus"`:                                                   "sizes: [{weight: 1, allocatable: {cpus: 1}}]",
		`cpu: "much" is not an amount of CPU`:                      "sizes: [{weight: 1, allocatable: {cpu: much}}]",
		`memory: "64GB" is not an amount of memory`:                "pools: [{count: 1, allocatable: {memory: 64GB}}]",
		"pods: -1 is negative":                                     "pools: [{count: 1, allocatable: {pods: -1}}]",
		`unknown field "request"`:                                  "shapes: [{name: a, request: {cpu: 1}}]",
		`requests.cpu: "-1" is negative`:                           "shapes: [{name: a, requests: {cpu: -1}}]",
		"requests.pods: 2":                                         "shapes: [{name: a, requests: {pods: 2}}]",
		`min: cpu: "x"`:                                            "requests: {cpu: {distribution: loguniform, min: x, max: 2}}",
		`unknown field "median_"`:                                  "requests: {cpu: {median_: 1}}",
		`unknown field "arrivals.rate"`:                            "arrivals: {rate: 1}",
		`unknown field "trace.path"`:                               "trace: {path: x}",
		"cannot unmarshal string into Go struct field Config.load": "load: half",
	} {
		if _, err := decode(text); err == nil || !strings.Contains(err.Error(), say) {
			t.Errorf("%s: %v, want %q in it", text, err, say)
		}
	}
}

func TestValidateTimes(t *testing.T) {
	for say, spoil := range map[string]func(*Config){
		`process: "often" is not steady`:                       func(c *Config) { c.Arrivals.Process = "often" },
		"arrivals.size applies only to":                        func(c *Config) { c.Arrivals = Arrivals{Process: poisson, Size: 1} },
		"arrivals.size: 2 is no":                               func(c *Config) { c.Arrivals = Arrivals{Process: bursts, Size: 2} },
		"arrivals.period and arrivals.amplitude apply only to": func(c *Config) { c.Arrivals = Arrivals{Process: bursts, Period: 2} },
		"arrivals.period: -1":                                  func(c *Config) { c.Arrivals = Arrivals{Process: diurnal, Period: -1} },
		"arrivals.amplitude: 2":                                func(c *Config) { c.Arrivals = Arrivals{Process: diurnal, Amplitude: 2} },
		`distribution: "long" is not none`:                     func(c *Config) { c.Lifetimes.Distribution = "long" },
		"lifetimes.mean: -1":                                   func(c *Config) { c.Lifetimes.Mean = -1 },
		"left out for none":                                    func(c *Config) { c.Lifetimes = Lifetimes{Distribution: noEnd, Mean: 1} },
		"lifetimes.alpha: 1 ":                                  func(c *Config) { c.Lifetimes = Lifetimes{Distribution: paretoEnd, Alpha: 1} },
		"is for lognormal only":                                func(c *Config) { c.Lifetimes.Sigma = 1 },
		"turnover: is 0, but":                                  func(c *Config) { c.Turnover, c.Arrivals.Process = 0, poisson },
		"set either requests or shapes":                        func(c *Config) { c.Requests = requests() },
		"requests.cpu: distribution: \"\" is":                  func(c *Config) { c.Shapes, c.Requests = nil, &workload.Requests{} },
		"shapes: the trace decides":                            func(c *Config) { c.Trace = &Trace{File: "x"} },
		"trace.file: is missing":                               func(c *Config) { c.Trace = &Trace{} },
		"trace.block: -1":                                      func(c *Config) { c.Trace = &Trace{Resampling: Resampling{Block: -1}} },
		"trace.block: is for resampled episodes":               func(c *Config) { c.Trace = &Trace{Pods: 2, Resampling: Resampling{Block: 5}} },
		"trace.pods: -1":                                       func(c *Config) { c.Trace = &Trace{Pods: -1} },
		"replicas: the trace decides":                          func(c *Config) { c.Trace = &Trace{File: "x"} },
		"requests.memory: min and max must": func(c *Config) {
			c.Shapes, c.Requests = nil,
				requests()
			c.Requests.Memory.Min = 0
		},
	} {
		c := config()
		spoil(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), say) {
			t.Errorf("%v, want %q in it", err, say)
		}
	}
}

const traceText = `arrival,lifetime,cpu_request,mem_request
100,10,1,1Gi
100,,500m,1Gi
105,20,4,8Gi
106,4,4,8Gi
121,1,1,1Gi
125.5,1,1,1Gi
`

// The pods of a trace wait for room, run from when they get it, and leave after their lifetime.
func TestTrace(t *testing.T) {
	file := filepath.Join(t.TempDir(), "trace.csv")
	fatal.If(t, os.WriteFile(file, []byte(traceText), 0o644))
	c := Config{
		Pools: []NodePool{{Count: Exactly(1), Allocatable: config().Sizes[2].Allocatable}},
		Trace: &Trace{File: file, Resampling: Resampling{Resample: new(false)}}, Objective: objective.Mix{{Term: objective.Balance{}, Weight: 1}},
	}
	c.Pools[0].Allocatable.MilliCPU = 6000
	e := newEnv(t, c, 1)
	var at []float64
	for !e.Done() {
		at = append(at, e.now)
		e.Step(0)
	}
	// At 6 the fourth pod requests 4 CPUs while 0.5 are free. It gets them when the third leaves.
	if want := []float64{0, 0, 5, 21, 25, 25.5}; !cmp.Equal(at, want) {
		t.Errorf("pods got their node at %v, want %v", at, want)
	}
	o := e.Outcome()
	if o.Waited != 1 || o.Unscheduled != 0 || o.Arrived != 6 || o.Pending == 0 {
		t.Errorf("%+v", o)
	}
	c.Trace.Pods = 2
	windows := map[string]bool{}
	e = fatal.Value(New(c))(t)
	for seed := range uint64(40) {
		fatal.If(t, e.Reset(seed))
		if len(e.arrivals.pods) != 2 || e.arrivals.at[0] != 0 {
			t.Fatalf("%+v", e.arrivals)
		}
		windows[e.Plan()[0].Pod.Name] = true
	}
	if len(windows) != 5 {
		t.Errorf("windows begin with %v", windows)
	}
	for pods, name := range map[int]string{7: file, 0: file + "x"} {
		c.Trace = &Trace{File: name, Pods: pods}
		if _, err := New(c); err == nil {
			t.Errorf("%d pods of %s: no error", pods, name)
		}
	}
}
