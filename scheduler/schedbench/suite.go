package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
	_ "k8s.io/kubernetes/pkg/features" // registers the feature gates of the release
	"sigs.k8s.io/yaml"
)

// suites are the topics of Kubernetes' scheduler_perf that upstream runs by default, and preemption, which Kubernetes 1.37 took out of
// misc.
var suites = []string{"misc", "affinity", "topology_spreading", "event_handling", "volumes", "default_preemption"}

// integrationSuites have workloads for integration tests besides: pod groups, batches, claims, and pods that must not starve.
var integrationSuites = []string{"starvation", "batching", "workload_preemption", "dra"}

const (
	labelPerformance = "performance"
	labelIntegration = "integration-test"
)

// workload is one workload of one test case of scheduler_perf.
type workload struct {
	suite, testCase, name string
	labels                []string
	gates                 map[string]bool // feature gates of the test case and of the workload
	params                map[string]int  // numbers of nodes, pods and namespaces

	all   map[string]any // the whole test case, as in the file
	entry map[string]any // the workload in it
}

// readSuite reads the workloads of a suite from its performance-config.yaml. perf is the folder of
// the package scheduler_perf.
func readSuite(perf, suite string) ([]workload, error) {
	path := filepath.Join(perf, suite, "performance-config.yaml")
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("suite %s: %w", suite, err)
	}
	var cases []map[string]any
	if err := yaml.Unmarshal(text, &cases); err != nil {
		return nil, fmt.Errorf("suite %s: %s: %w", suite, path, err)
	}
	var out []workload
	for _, c := range cases {
		entries, _ := c["workloads"].([]any)
		for _, e := range entries {
			w, err := newWorkload(suite, c, e)
			if err != nil {
				return nil, fmt.Errorf("suite %s: %s: %w", suite, path, err)
			}
			out = append(out, w)
		}
	}
	return out, nil
}

func newWorkload(suite string, testCase map[string]any, entry any) (workload, error) {
	type common struct {
		Name         string
		Labels       []string
		FeatureGates map[string]bool
		Params       map[string]any // numbers, and since Kubernetes 1.37 names of files
	}
	var c, e common
	for from, to := range map[any]*common{&testCase: &c, &entry: &e} {
		text, err := json.Marshal(from)
		if err != nil {
			return workload{}, err
		}
		if err := json.Unmarshal(text, to); err != nil {
			return workload{}, err
		}
	}
	w := workload{
		suite: suite, testCase: c.Name, name: e.Name, labels: slices.Concat(c.Labels, e.Labels), gates: map[string]bool{},
		params: map[string]int{}, all: testCase,
	}
	for name, v := range e.Params {
		if n, is := v.(float64); is {
			w.params[name] = int(n)
		}
	}
	maps.Copy(w.gates, c.FeatureGates)
	maps.Copy(w.gates, e.FeatureGates)
	w.entry, _ = entry.(map[string]any)
	return w, nil
}

// String names the workload as scheduler_perf does, with its sizes.
func (w workload) String() string {
	sizes := make([]string, 0, len(w.params))
	for _, name := range slices.Sorted(maps.Keys(w.params)) {
		sizes = append(sizes, fmt.Sprintf("%s %d", name, w.params[name]))
	}
	return fmt.Sprintf("%s %s/%s (%s)", w.suite, w.testCase, w.name, strings.Join(sizes, ", "))
}

// labelled returns the workloads that have a label.
func labelled(all []workload, label string) []workload {
	return slices.DeleteFunc(slices.Clone(all), func(w workload) bool { return !slices.Contains(w.labels, label) })
}

// representatives returns one workload of each test case, not larger than size: among the workloads whose feature gates are nearest to the
// release's defaults the one that measures the most pods, and among equal ones upstream's smallest.
func representatives(all []workload, size int) []workload {
	better := func(a, b workload) int {
		return cmp.Or(
			cmp.Compare(a.switched(), b.switched()),
			-cmp.Compare(a.shrunk(size).params[measured], b.shrunk(size).params[measured]),
			cmp.Compare(a.total(), b.total()))
	}
	var out []workload
	for _, w := range all {
		i := slices.IndexFunc(out, func(o workload) bool { return o.suite == w.suite && o.testCase == w.testCase })
		if i < 0 {
			out = append(out, w)
		} else if better(w, out[i]) < 0 {
			out[i] = w
		}
	}
	for i := range out {
		out[i] = out[i].shrunk(size)
	}
	return out
}

// switched counts the feature gates that differ from the release's defaults.
func (w workload) switched() int {
	known, n := utilfeature.DefaultMutableFeatureGate.GetAll(), 0
	for gate, on := range w.gates {
		if spec, ok := known[featuregate.Feature(gate)]; !ok || spec.Default != on {
			n++
		}
	}
	return n
}

// total is the sum of the numbers of nodes, pods and namespaces.
func (w workload) total() int {
	n := 0
	for _, v := range w.params {
		n += v
	}
	return n
}

// measured is the parameter that holds the number of pods whose scheduling is measured.
const measured = "measurePods"

// shrunk returns the workload with at most size measured pods and at most size nodes of one kind. All
// its numbers shrink in proportion, to 1 at least, because scheduler_perf wants some of them in a fixed
// relation. 0 changes nothing.
func (w workload) shrunk(size int) workload {
	largest := 0
	for name, v := range w.params {
		if name == measured || strings.Contains(strings.ToLower(name), "nodes") {
			largest = max(largest, v)
		}
	}
	if size == 0 || largest <= size {
		return w
	}
	params := maps.Clone(w.params)
	for name, v := range params {
		if v > 0 {
			params[name] = max(1, v*size/largest)
		}
	}
	w.params = params
	return w
}

// config returns a performance-config.yaml with this workload alone. schedulerConfig is the file of the
// scheduler's configuration; empty for the default. Upstream's thresholds are left out, because they
// hold for its own machines.
func (w workload) config(schedulerConfig string) ([]byte, error) {
	c, entry := maps.Clone(w.all), maps.Clone(w.entry)
	delete(entry, "threshold")
	params, _ := entry["params"].(map[string]any)
	params = maps.Clone(params)
	for name, v := range w.params {
		params[name] = v
	}
	entry["params"] = params
	c["workloads"] = []any{entry}
	if schedulerConfig != "" {
		c["schedulerConfigPath"] = schedulerConfig
	}
	return yaml.Marshal([]any{c})
}
