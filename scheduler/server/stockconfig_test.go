package server

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"gnnsched/internal/exit"
	"gnnsched/internal/golden"
	"gnnsched/scheduler/policy/policytest"
	"gnnsched/scheduler/policy/stock"
)

// What is written is read back, whatever the comment says.
func TestWrittenIsRead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := policytest.DrawProfile(t)
		text, err := WriteStockConfig(want, rapid.String().Draw(t, "comment"))
		if err != nil {
			t.Fatal(err)
		}
		got, err := parseStockConfig(text)
		if d := cmp.Diff(want, got); d != "" || err != nil {
			t.Fatalf("%v: %s\n%s", err, d, text)
		}
	})
}

// A file without a word about scores is upstream's default.
func TestDefault(t *testing.T) {
	for _, body := range []string{"", "profiles: [{schedulerName: mine}]\n",
		"profiles: [{plugins: {score: {disabled: [{name: VolumeBinding}]}}}]\n"} {
		got, err := parseStockConfig([]byte(stockHeader + body))
		if d := cmp.Diff(stock.Default(), got); d != "" || err != nil {
			t.Errorf("%q: %v: %s", body, err, d)
		}
	}
}

const stockHeader = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"

// Weights count as upstream counts them: score before multiPoint, and 1 for none.
func TestWeights(t *testing.T) {
	body := `profiles: [{plugins: {
  multiPoint: {disabled: [{name: NodeAffinity}], enabled: [{name: PodTopologySpread, weight: 7}, {name: TaintToleration, weight: 8}, {name: NodeResourcesFit}]},
  score: {disabled: [{name: ImageLocality}], enabled: [{name: TaintToleration, weight: 9}, {name: NodeResourcesBalancedAllocation}]}}}]`
	got, err := parseStockConfig([]byte(stockHeader + body))
	want := stock.Weights{Fit: 1, Balanced: 1, Spread: 7, Taints: 9, PodAffinity: 2}
	if d := cmp.Diff(want, got.Weights); d != "" || err != nil {
		t.Errorf("%v: %s", err, d)
	}
	got, err = parseStockConfig([]byte(stockHeader + "profiles: [{plugins: {score: {disabled: [{name: '*'}], enabled: [{name: " +
		"NodeResourcesFit, weight: 4}]}}}]"))
	if d := cmp.Diff(stock.Weights{Fit: 4}, got.Weights); d != "" || err != nil {
		t.Errorf("%v: %s", err, d)
	}
	got, err = parseStockConfig([]byte(stockHeader + "profiles: [{plugins: {multiPoint: {disabled: [{name: NodeResourcesBalancedAllocation}]}}}]"))
	without := stock.Default()
	without.Weights.Balanced = 0
	if d := cmp.Diff(without, got); d != "" || err != nil {
		t.Errorf("%v: %s", err, d)
	}
}

func TestRefuses(t *testing.T) {
	for body, want := range map[string]string{
		"profile: []": `unknown field "profile"`,
		"profiles: [{schedulerName: a}, {schedulerName: b}]": "2 profiles",
		"extenders: [{urlPrefix: 'http://x', prioritizeVerb: p, " +
			"weight: 1}]": "extenders",
		"profiles: [{plugins: {score: {enabled: [{name: " +
			"LearnedScore}]}}}]": `"LearnedScore"`,
		"profiles: [{plugins: {multiPoint: {enabled: [{name: " +
			"GPUShares}]}}}]": `"GPUShares"`,
		pluginConfig("NodeResourcesFit", "{scoringStrategy: {type: Guess}}"): "Guess",
		pluginConfig("NodeResourcesFit", "{scoringStrategy: {type: "+
			"RequestedToCapacityRatio}}"): "0 points",
		pluginConfig("NodeResourcesFit", "{scoringStrategy: {type: LeastAllocated, resources: [{name: "+
			"cpu, weight: 101}]}}"): "weight 101",
		pluginConfig("NodeResourcesFit", "{scoringStrategy: {type: LeastAllocated, resources: [{name: "+
			"ephemeral-storage, weight: 1}]}}"): "ephemeral-storage",
		pluginConfig("NodeResourcesBalancedAllocation",
			"{resources: [{name: cpu, weight: 2}]}"): "must be 1",
		pluginConfig("PodTopologySpread", "{defaultingType: List, defaultConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: "+
			"ScheduleAnyway}]}"): "default constraints",
		pluginConfig("NodeAffinity", "{addedAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: "+
			"[{matchExpressions: [{key: a, operator: Exists}]}]}}}"): "addedAffinity",
		"profiles: [{plugins: {score: {enabled: [{name: NodeResourcesFit, weight: 2000000000}]}}}]": "weight is 2000000000",
	} {
		path := filepath.Join(t.TempDir(), "file.yaml")
		if err := os.WriteFile(path, []byte(stockHeader+body), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := ReadStockConfig(path)
		if exit.Code(err) != exit.Usage || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v; want %q", body, err, want)
		}
	}
	if _, err := ReadStockConfig(filepath.Join(t.TempDir(), "none.yaml")); exit.Code(err) != exit.Usage {
		t.Error(err)
	}
	if _, err := WriteStockConfig(stock.Profile{}, ""); err == nil {
		t.Error("an empty profile is written")
	}
}

func pluginConfig(name, args string) string {
	return "profiles: [{pluginConfig: [{name: " + name + ", args: " + args + "}]}]"
}

func TestWriteGolden(t *testing.T) {
	p := stock.Default()
	p.Strategy, p.Shape, p.NoDefaultSpread = stock.RequestedToCapacityRatio,
		[]stock.Point{{Utilization: 0, Score: 3}, {Utilization: 100, Score: 9}}, true
	p.Weights.Balanced, p.Fit = 0, []stock.Weighted{{Resource: stock.CPU, Weight: 3}, {Resource: stock.GPU, Weight: 17}}
	text, err := WriteStockConfig(p, "Two lines,\nand a hostile\rone: \x1b[31m\n")
	if err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "written.yaml", string(text))
}

// No file makes the reader panic, and what it accepts can be written and read again.
func FuzzParse(f *testing.F) {
	f.Add([]byte(stockHeader))
	if b, err := os.ReadFile(filepath.Join("testdata", "written.yaml")); err == nil {
		f.Add(b)
	}
	f.Add([]byte(stockHeader + "profiles: [null]\nextenders: [null]\n"))
	f.Add([]byte(stockHeader + pluginConfig("NodeResourcesFit", "null")))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := parseStockConfig(b)
		if err != nil {
			return
		}
		text, err := WriteStockConfig(p, string(b))
		if err != nil {
			t.Fatal(err)
		}
		again, err := parseStockConfig(text)
		if d := cmp.Diff(p, again); d != "" || err != nil {
			t.Fatalf("%v: %s", err, d)
		}
	})
}

// A file of v1beta2 names the version and the plugins that are gone; no hint sends its owner to another command.
func TestReadOutdated(t *testing.T) {
	_, err := ReadStockConfig(filepath.Join("..", "plugin", "userconfig", "testdata", "v1beta2.yaml"))
	var with *exit.Error
	if !errors.As(err, &with) || exit.Code(err) != exit.Usage || !strings.Contains(err.Error(), "NodeResourcesMostAllocated (now") ||
		strings.Contains(with.Hint+stockHint, "tune") {
		t.Errorf("%v, %+v", err, with)
	}
}
