package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

const twoCases = `
- name: Basic
  featureGates: {SchedulerAsyncPreemption: false}
  workloadTemplate: [{opcode: createNodes, countParam: $initNodes}, {opcode: createPods, countParam: $measurePods, collectMetrics: true}]
  workloads:
  - name: 5Nodes
    labels: [integration-test, short]
    params: {initNodes: 5, measurePods: 10}
  - name: old
    labels: [performance]
    params: {initNodes: 100, measurePods: 1000}
  - name: huge
    featureGates: {SchedulerAsyncPreemption: true}
    labels: [performance]
    threshold: 270
    params: {initNodes: 5000, initPods: 10, taintNodes: 0, measurePods: 50000}
  - name: large
    featureGates: {SchedulerAsyncPreemption: true}
    labels: [performance]
    params: {initNodes: 5000, initPods: 10, measurePods: 10000}
  - name: brief
    featureGates: {SchedulerAsyncPreemption: true}
    labels: [performance]
    params: {initNodes: 5000, initPods: 10, measurePods: 1000}
- name: Both
  labels: [performance]
  workloadTemplate: [{opcode: createPods, countParam: $measurePods, collectMetrics: true}]
  workloads:
  - name: small
    labels: [integration-test]
    params: {measurePods: 10}
`

// upstreamFolder makes a folder like scheduler_perf's with one suite.
func upstreamFolder(t *testing.T) string {
	t.Helper()
	perf := t.TempDir()
	write(t, filepath.Join(perf, "misc", "performance-config.yaml"), twoCases)
	return perf
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o755); err != nil {
		t.Fatal(err)
	}
}

func TestSelected(t *testing.T) {
	perf := upstreamFolder(t)
	for name, c := range map[string]struct {
		integration bool
		size        int
		want        []string
	}{
		"the release's gates, many pods, then small": {false, 2000, []string{
			"misc Basic/large (initNodes 1000, initPods 2, measurePods 2000)", "misc Both/small (measurePods 10)"}},
		"upstream's sizes": {false, 0, []string{
			"misc Basic/huge (initNodes 5000, initPods 10, measurePods 50000, taintNodes 0)", "misc Both/small (measurePods 10)"}},
		"at least 1": {false, 4, []string{
			"misc Basic/large (initNodes 2, initPods 1, measurePods 4)", "misc Both/small (measurePods 4)"}},
		"integration": {true, 1, []string{"misc Basic/5Nodes (initNodes 5, measurePods 10)"}},
	} {
		ws, err := selected(perf, []string{"misc"}, c.integration, c.size)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, w := range ws {
			got = append(got, w.String())
		}
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
	if _, err := selected(perf, []string{"other"}, false, 0); err == nil || !strings.Contains(err.Error(), "suite other") {
		t.Errorf("%v, want an error about the suite", err)
	}
}

// The file for scheduler_perf holds one workload with its new sizes and without upstream's threshold. The rest of the test case is
// unchanged.
func TestConfig(t *testing.T) {
	all, err := readSuite(upstreamFolder(t), "misc")
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(all, func(w workload) bool { return w.name == "huge" })
	text, err := all[i].shrunk(500).config("/a/scheduler.yaml")
	if err != nil {
		t.Fatal(err)
	}
	const want = `
- name: Basic
  featureGates: {SchedulerAsyncPreemption: false}
  schedulerConfigPath: /a/scheduler.yaml
  workloadTemplate: [{opcode: createNodes, countParam: $initNodes}, {opcode: createPods, countParam: $measurePods, collectMetrics: true}]
  workloads:
  - name: huge
    featureGates: {SchedulerAsyncPreemption: true}
    labels: [performance]
    params: {initNodes: 50, initPods: 1, taintNodes: 0, measurePods: 500}
`
	if d := cmp.Diff(tree(t, want), tree(t, string(text))); d != "" {
		t.Error(d)
	}
	if text, err = all[i].config(""); err != nil || strings.Contains(string(text), "schedulerConfigPath") {
		t.Errorf("%v, and a scheduler configuration in\n%s", err, text)
	}
}

func tree(t *testing.T, text string) (out any) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(text), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// The suites of go.mod's Kubernetes can be read, and each has workloads for both commands.
func TestUpstreamSuites(t *testing.T) {
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/kubernetes").Output()
	if err != nil {
		t.Fatal(err)
	}
	perf := filepath.Join(strings.TrimSpace(string(dir)), "test", "integration", "scheduler_perf")
	const size = 2000
	for _, suite := range slices.Concat(suites, integrationSuites) {
		if _, err := os.Stat(filepath.Join(perf, suite)); os.IsNotExist(err) {
			continue // a newer release has it
		}
		extra := slices.Contains(integrationSuites, suite)
		for _, integration := range []bool{false, true} {
			if extra && !integration {
				continue
			}
			ws, err := selected(perf, []string{suite}, integration, size)
			if err != nil {
				t.Fatal(err)
			}
			if len(ws) < 4 && (!extra || len(ws) < 2) {
				t.Errorf("%s, integration %v: %d workloads, want 4 or more", suite, integration, len(ws))
			}
			if extra {
				continue // some measure groups or claims instead of pods
			}
			for _, w := range ws {
				if pods := w.params[measured]; pods < 1 || pods > size || !integration && pods < 100 {
					t.Errorf("%v: %d measured pods", w, pods)
				}
			}
		}
	}
}
