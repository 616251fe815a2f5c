package sim

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	strictjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"gnnsched/internal/fatal"
	"gnnsched/scheduler/objective"
	"gnnsched/workload"
)

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
	source, err := os.ReadFile("config.go")
	fatal.If(t, err)
	var text strings.Builder
	for _, m := range regexp.MustCompile(`(?m)^//\t(.*)$`).FindAllStringSubmatch(string(source), -1) {
		text.WriteString(m[1] + "\n")
	}
	c, err := decode(text.String())
	fatal.If(t, err)
	newEnv(t, c, 1)
	if c.Pools[0].Allocatable.GPU != 8 || c.Shapes[1].Requests.Memory != 32<<30 || c.Load != (FloatRange{0.8, 0.8}) ||
		c.Zones != Exactly(3) || c.Arrivals.Size != 0.1 || c.Shapes[1].Tolerations[0].Exists != true {
		t.Errorf("%+v", c)
	}
	again, err := yaml.Marshal(c)
	fatal.If(t, err)
	d, err := decode(string(again))
	fatal.If(t, err)
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
	e, err := New(c)
	fatal.If(t, err)
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
