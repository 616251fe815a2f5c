package userconfig

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	schedulerconfig "k8s.io/kube-scheduler/config/v1"
	"sigs.k8s.io/yaml"

	"gnnsched/internal/exit"
	"gnnsched/internal/fatal"
)

const header = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"

// file writes a file and returns its path.
func file(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.yaml")
	fatal.If(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

// What the command accepts, it can write for another kubeconfig, and reads again with the same profiles.
// What it refuses is the user's fault.
func FuzzParse(f *testing.F) {
	for _, name := range []string{"full.yaml", "smallest.yaml"} {
		b := fatal.Value(os.ReadFile(filepath.Join("..", "..", "server", "testdata", name)))(f)
		f.Add(b)
	}
	f.Add([]byte(header))
	f.Add([]byte(header + "profiles: [{}, {schedulerName: a, plugins: {multiPoint: {enabled: [{name: GPUShares}]}}}]\n"))
	f.Add([]byte("profiles: [null]\nextenders: [null]\nleaderElection: null\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		file, err := parse("f", b)
		if err != nil {
			if exit.Code(err) != exit.Usage {
				t.Fatalf("exit code %d: %v", exit.Code(err), err)
			}
			return
		}
		text := fatal.Value(file.YAMLFor("/given"))(t)
		again, err := parse("f", text)
		if err != nil || again.Kubeconfig() != "/given" || !slices.Equal(again.SchedulerNames(), file.SchedulerNames()) {
			t.Fatalf("not the same after a round trip: %v\n%s", err, text)
		}
	})
}

func TestRead(t *testing.T) {
	for name, c := range map[string]struct{ path, want string }{
		"none named":    {file(t, header), "/given"},
		"its own":       {file(t, header+"clientConnection: {kubeconfig: /own}\n"), "/given"},
		"unknown field": {file(t, header+"percentageOfNodesToScor: 1\n"), ""},
		"malformed":     {file(t, "{"), ""},
		"missing":       {filepath.Join(t.TempDir(), "none"), ""},
	} {
		var y []byte
		f, err := Read(c.path)
		if err == nil {
			y, err = f.YAMLFor("/given")
		}
		if c.want == "" {
			if exit.Code(err) != exit.Usage {
				t.Errorf("%s: %v, want a usage error", name, err)
			}
			continue
		}
		var k schedulerconfig.KubeSchedulerConfiguration
		if err != nil || yaml.UnmarshalStrict(y, &k) != nil || k.ClientConnection.Kubeconfig != c.want {
			t.Errorf("%s: %v, kubeconfig %q, want %q", name, err, k.ClientConnection.Kubeconfig, c.want)
		}
	}
}

// Profiling is off unless the file turns it on.
func TestFileTurnsProfilingOff(t *testing.T) {
	for text, want := range map[string]bool{"": false, "enableProfiling: false\n": false, "enableProfiling: true\n": true} {
		f := fatal.Value(parse("f", []byte(header+text)))(t)
		y := fatal.Value(f.YAMLFor("/given"))(t)
		var k schedulerconfig.KubeSchedulerConfiguration
		fatal.If(t, yaml.UnmarshalStrict(y, &k))
		if k.EnableProfiling == nil || *k.EnableProfiling != want {
			t.Errorf("%q: profiling in\n%s", text, y)
		}
	}
}

// If one profile has GPUShares, all need it; otherwise a device would be given to two pods.
func TestSharesEverywhere(t *testing.T) {
	const (
		whole = "{multiPoint: {enabled: [{name: GPUShares}]}, bind: {enabled: [{name: GPUShares}, {name: DefaultBinder}]}}"
		short = "{multiPoint: {enabled: [{name: GPUShares}]}, bind: {enabled: [{name: GPUShares}]}}" // upstream's binder follows
	)
	for name, c := range map[string]struct {
		profiles []string // their plugins
		want     string   // part of the error; empty for none
	}{
		"in all":           {[]string{whole, whole}, ""},
		"in short":         {[]string{short, whole}, ""},
		"in none":          {[]string{"{}", "{score: {enabled: [{name: ImageLocality}]}}"}, ""},
		"multiPoint alone": {[]string{"{multiPoint: {enabled: [{name: GPUShares}]}}"}, "profile p0 lacks GPUShares as the first at bind"},
		"bind alone": {[]string{"{bind: {enabled: [{name: GPUShares}, {name: DefaultBinder}]}}"},
			"profile p0 lacks GPUShares at multiPoint"},
		"after upstream's": {[]string{strings.Replace(whole, "[{name: GPUShares}, {name: DefaultBinder}]",
			"[{name: DefaultBinder}, {name: GPUShares}]", 1)}, "profile p0 lacks GPUShares as the first at bind"},
		"missing in one": {[]string{whole, "{}"}, "profile p1 lacks GPUShares at multiPoint"},
		"filter off": {[]string{strings.Replace(whole, "{multi", `{filter: {disabled: [{name: "*"}]}, multi`, 1)},
			"profile p0 disables GPUShares"},
		"two allocators": {[]string{"{multiPoint: {enabled: [{name: LearnedDevices}]}}"},
			"profile p0 has both LearnedDevices and DynamicResources"},
		"theirs again": {[]string{"{multiPoint: {disabled: [{name: DynamicResources}], enabled: [{name: DynamicResources}, {name: " +
			"LearnedDevices}]}}"}, "profile p0 has both"},
		"one allocator": {[]string{"{multiPoint: {disabled: [{name: DynamicResources}], enabled: [{name: LearnedDevices}]}}"}, ""},
		"filter by name": {[]string{strings.Replace(whole, "{multi", `{filter: {disabled: [{name: "*"}], enabled: [{name: GPUShares}]}, multi`,
			1)}, ""},
	} {
		content := header + "profiles:\n"
		for i, plugins := range c.profiles {
			content += fmt.Sprintf("- schedulerName: p%d\n  plugins: %s\n", i, plugins)
		}
		_, err := parse("f", []byte(content))
		if c.want == "" && err != nil || c.want != "" && (exit.Code(err) != exit.Usage || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// The lease is the one that all schedulers of a cluster share unless the file names another. A file that does
// not speak of the election elects, as with upstream.
func TestElection(t *testing.T) {
	for text, want := range map[string]struct {
		elects bool
		lease  string
	}{
		"":                                       {true, LeaseName},
		"leaderElection: {leaderElect: false}\n": {false, LeaseName},
		"leaderElection: {leaderElect: true, resourceName: mine}\n": {true, "mine"},
	} {
		f := fatal.Value(parse("f", []byte(header+text)))(t)
		y := fatal.Value(f.YAMLFor(""))(t)
		var k schedulerconfig.KubeSchedulerConfiguration
		fatal.If(t, yaml.UnmarshalStrict(y, &k))
		if f.Elects() != want.elects || k.LeaderElection.ResourceName != want.lease {
			t.Errorf("%q: elects %v, lease %q, want %+v", text, f.Elects(), k.LeaderElection.ResourceName, want)
		}
	}
}

// A profile with a share needs LearnedScore alone at score, and where it hears of the pods.
func TestShare(t *testing.T) {
	profile := func(plugins string) string {
		return header + "profiles: [{schedulerName: a, plugins: " + plugins +
			", pluginConfig: [{name: LearnedScore, args: {share: {of: 0.05}}}]}]\n"
	}
	const score, hears = "score: {disabled: [{name: '*'}], enabled: [{name: LearnedScore}]}, preScore: {enabled: [{name: LearnedScore}]}",
		"reserve: {enabled: [{name: LearnedScore}]}, postBind: {enabled: [{name: LearnedScore}]}"
	for _, c := range []struct {
		name, text, err string
		shares          bool
	}{
		{"none", header, "", false},
		{"complete", profile("{" + score + ", " + hears + "}"), "", true},
		{"no plugins", profile("null"), "does not enable LearnedScore", false},
		{"others score too", profile("{preScore: {enabled: [{name: LearnedScore}]}, " + hears + "}"), "the only plugin at score", false},
		{"deaf", profile("{" + score + "}"), "needs LearnedScore at reserve", false},
	} {
		f, err := parse(c.name, []byte(c.text))
		if (err == nil) != (c.err == "") || err != nil && (!strings.Contains(err.Error(), c.err) || exit.Code(err) != exit.Usage) {
			t.Errorf("%s: %v, want %q", c.name, err, c.err)
		}
		if err == nil && f.HasCanary() != c.shares {
			t.Errorf("%s: shares %v", c.name, f.HasCanary())
		}
	}
}

// A file of an earlier version names the version that is read, and its plugins that are gone.
func TestOutdated(t *testing.T) {
	const v1 = "only kubescheduler.config.k8s.io/v1 is read; "
	for _, c := range []struct {
		name, text string
		want       []string
	}{
		{"the plugins of v1beta2", fatal.ReadGolden(t, "v1beta2.yaml"), []string{"its apiVersion is kubescheduler.config.k8s.io/v1beta2, and " + v1 +
			"v1 has no plugins NodeResourcesLeastAllocated (now NodeResourcesFit with the scoringStrategy LeastAllocated), " +
			"NodeResourcesMostAllocated (now"}},
		{"v1beta3", strings.Replace(header, "/v1", "/v1beta3", 1) +
			"profiles: [{pluginConfig: [{name: SelectorSpread}]}, {plugins: {filter: {enabled: [{name: EBSLimits}]}}}]\n",
			[]string{"v1beta3, and " + v1, "EBSLimits (now NodeVolumeLimits), SelectorSpread (now"}},
		{"nothing is gone", strings.Replace(header, "/v1", "/v1beta3", 1), []string{v1 + "all its plugins are still there"}},
		{"v1 with a plugin that is gone", header + "profiles: [{plugins: {score: {enabled: [{name: NodeResourcesMostAllocated}]}}}]\n",
			[]string{"v1 has no plugins NodeResourcesMostAllocated"}},
	} {
		_, err := Read(file(t, c.text))
		for _, want := range c.want {
			if exit.Code(err) != exit.Usage || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", c.name, err, want)
			}
		}
	}
	if _, err := Read(file(t, header+"profiles: [{plugins: {score: {disabled: [{name: NodeResourcesMostAllocated}]}}}]\n")); err != nil {
		t.Errorf("v1 that disables what is gone: %v", err)
	}
}
