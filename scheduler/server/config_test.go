package server

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/validation"
	"pgregory.net/rapid"

	"gnnsched/internal/exit"
	"gnnsched/internal/fatal"
	"gnnsched/internal/kubeconfig"
	"gnnsched/scheduler/plugin"
	"gnnsched/scheduler/plugin/userconfig"
	"gnnsched/scheduler/policy/policytest"
	"gnnsched/scheduler/policy/preference"
	"gnnsched/scheduler/policy/stock"
)

// full returns a configuration that uses every field.
func full() Config {
	return Config{
		Kubeconfig: "/home/user/.kube/config", QPS: 5000, Parallelism: 4, PercentageOfNodesToScore: 100, LeaderElect: true,
		Profiles: []Profile{
			{SchedulerName: "default-scheduler", Args: Args{Variant: DefaultProfile}},
			{SchedulerName: "gnn", Args: Args{Variant: "gnn"}},
			{SchedulerName: "mine", Blend: map[string]int32{"PodTopologySpread": 2, "NodeAffinity": 3, "ImageLocality": 1},
				Args: Args{Variant: "acdqn", Checkpoint: "/models/mine.safetensors", Deadline: metav1.Duration{Duration: 20 * time.Millisecond}}},
			{SchedulerName: "packs", Args: Args{Policy: "best-fit", Deadline: metav1.Duration{Duration: 20 * time.Millisecond},
				Preferences: preference.Declared}},
			{SchedulerName: "blends", Args: Args{Policy: "best-fit", Preferences: preference.Blend}},
			{SchedulerName: "learns", Args: Args{Variant: "gnn", Checkpoint: "/models/learned.safetensors", Learn: learn("gnntrain", "--online")}},
		},
	}
}

func learn(trainer ...string) *plugin.LearnArgs {
	return &plugin.LearnArgs{Trainer: trainer, InitEpsilon: 0.1, EpsilonDecay: 0.999, FinalEpsilon: 0.01}
}

func TestYAML(t *testing.T) {
	for name, c := range map[string]Config{
		"full":     full(),
		"smallest": {QPS: 50, Profiles: []Profile{{SchedulerName: "gnn", Args: Args{Variant: "gnn"}}}},
	} {
		got := fatal.Value(c.YAML())(t)
		fatal.Golden(t, name+".yaml", string(got))
		upstreamAccepts(t, got)
	}
}

// upstreamAccepts decodes and validates a configuration like kube-scheduler, and our plugin's arguments
// like the plugin.
func upstreamAccepts(t *testing.T, y []byte) {
	t.Helper()
	obj, _, err := scheme.Codecs.UniversalDecoder().Decode(y, nil, nil)
	fatal.If(t, err)
	k := obj.(*config.KubeSchedulerConfiguration)
	if err := validation.ValidateKubeSchedulerConfiguration(k); err != nil {
		t.Error(err)
	}
	for _, p := range k.Profiles {
		for _, c := range p.PluginConfig {
			if c.Name != plugin.Name {
				continue
			}
			if _, err := plugin.DecodeArgs(c.Args.(*runtime.Unknown), p.SchedulerName); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestValidate(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(*Config)
		want string
	}{
		"no profile":          {func(c *Config) { c.Profiles = nil }, "no scheduler profile"},
		"no QPS":              {func(c *Config) { c.QPS = 0 }, "QPS"},
		"percentage":          {func(c *Config) { c.PercentageOfNodesToScore = 101 }, "percentage of nodes"},
		"negative":            {func(c *Config) { c.PercentageOfNodesToScore = -1 }, "percentage of nodes"},
		"no name":             {func(c *Config) { c.Profiles[0].SchedulerName = "" }, "scheduler name"},
		"twice":               {func(c *Config) { c.Profiles[1].SchedulerName = c.Profiles[0].SchedulerName }, "there twice"},
		"unknown variant":     {func(c *Config) { c.Profiles[1].Variant = "transformer" }, "transformer"},
		"unknown policy":      {func(c *Config) { c.Profiles[3].Policy = "worst-fit" }, "best-fit"},
		"unknown preferences": {func(c *Config) { c.Profiles[1].Preferences = "last" }, `preferences is "last"; there are first,`},
		"first and blended": {func(c *Config) { c.Profiles[2].Preferences = preference.First },
			"choose preferences blend or leave the weights out"},
		"policy and variant":   {func(c *Config) { c.Profiles[3].Variant = "gnn" }, "excludes variant and checkpoint"},
		"plugins of a network": {func(c *Config) { c.Profiles[1].Stock = new(stock.Default()) }, "only default-scheduler"},
		"plugins of a policy":  {func(c *Config) { c.Profiles[3].Stock = new(stock.Default()) }, "only default-scheduler"},
		"invalid plugins": {func(c *Config) {
			c.Profiles[0] = Profile{SchedulerName: "s", Stock: &stock.Profile{}, Args: Args{Variant: DefaultProfile}}
		}, "strategy"},
		"policy and checkpoint": {func(c *Config) { c.Profiles[3].Checkpoint = "f" }, "excludes variant and checkpoint"},
	} {
		k := full()
		c.edit(&k)
		if _, err := k.YAML(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	if err := full().Validate(); err != nil {
		t.Error(err)
	}
}

// Every name of ProfileNames gives a profile that upstream accepts; another name is an error.
func TestProfileNamed(t *testing.T) {
	c := Config{QPS: 50}
	for _, name := range ProfileNames() {
		p, err := ProfileNamed(name)
		if err != nil || p.SchedulerName != name {
			t.Errorf("%s: %+v, %v", name, p, err)
		}
		c.Profiles = append(c.Profiles, p)
	}
	y := fatal.Value(c.YAML())(t)
	upstreamAccepts(t, y)
	if _, err := ProfileNamed("foo"); err == nil || !strings.Contains(err.Error(), "acgnn, acdqn, ") ||
		!strings.Contains(err.Error(), "kube-scheduler, ") {
		t.Errorf("foo: %v, want the names", err)
	}
}

func file(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.yaml")
	fatal.If(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

const header = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"

// A user's mistake gives exit code 2 before the scheduler runs.
func TestRunRefuses(t *testing.T) {
	busy := fatal.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer busy.Close()
	const cluster = `{"apiVersion":"v1","kind":"Config","current-context":"o","clusters":[{"name":"o","cluster":{"server":"https://127.0.0.1:1"}}],"users":[{"name":"o","user":{}}],"contexts":[{"name":"o","context":{"cluster":"o","user":"o"}}]}`
	connection := "clientConnection: {kubeconfig: " + file(t, cluster) + "}\n"
	ours := func(args string) string {
		return header + connection + "profiles: [{schedulerName: gnn, plugins: {preScore: {enabled: [{name: LearnedScore}]}, score: {enabled: " +
			"[{name: LearnedScore}]}}, pluginConfig: [{name: LearnedScore, args: " + args + "}]}]\n"
	}
	for name, c := range map[string]struct {
		config string
		port   int
		want   string
	}{
		"port in use":      {ours("{}"), busy.Addr().(*net.TCPAddr).Port, "address already in use"},
		"unknown field":    {header + connection + "percentageOfNodesToScor: 1\n", 0, "percentageOfNodesToScor"},
		"unknown plugin":   {header + connection + "profiles: [{plugins: {score: {enabled: [{name: NoSuch}]}}}]\n", 0, "NoSuch"},
		"unknown argument": {ours("{deadlin: 1ms}"), 0, "deadlin"},
		"unknown variant":  {ours("{variant: transformer}"), 0, "transformer"},
		"unknown policy":   {ours("{policy: worst-fit}"), 0, "worst-fit"},
		"learning of devices": {ours("{checkpoint: ../../gnn/checkpoint/shipped/gpu-gnn.safetensors, learn: {trainer: [gnntrain], " +
			"initEpsilon: 0.1, epsilonDecay: 1}}"), 0, "only a network on the graph of kinds"},
		"policy and variant":    {ours("{policy: best-fit, variant: gnn}"), 0, "excludes"},
		"missing kubeconfig":    {header + "clientConnection: {kubeconfig: /does/not/exist}\n", 0, "/does/not/exist"},
		"malformed":             {"{", 0, "config.yaml"},
		"another kind of thing": {"apiVersion: v1\nkind: Pod\n", 0, "Pod"},
	} {
		err := Run(context.Background(), file(t, c.config), Endpoint{Address: "127.0.0.1", Port: c.port}, func() { t.Error(name, ": it runs") })
		if exit.Code(err) != exit.Usage || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: code %d, %v; want a usage error about %s", name, exit.Code(err), err, c.want)
		}
	}
	if err := Run(context.Background(), filepath.Join(t.TempDir(), "none"), Endpoint{}, nil); exit.Code(err) != exit.Usage {
		t.Errorf("missing file: %v, want a usage error", err)
	}
}

// A scheduler runs what gnnsched eval can, and the error of what it cannot says what is missing.
func TestProfileOfPolicyOfEval(t *testing.T) {
	for name, want := range map[string]Profile{
		"greedy:pack+zones": {SchedulerName: "greedy:pack+zones", Args: Args{Policy: "greedy:pack+zones"}},
		"running:gpu-gnn":   {SchedulerName: "running-gpu-gnn", Args: Args{Variant: "gpu-gnn"}},
	} {
		got, err := ProfileNamed(name)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		if err := (Config{QPS: 1, Profiles: []Profile{got}}).Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, want := range map[string]string{
		"running:fgd": "count running pods for networks only", "running:kube-scheduler": "for networks only",
		"running:none":  `no profile is called "none"`,
		"first-fit:fgd": "first devices that fit", "defrag=2%/1h:random": "do not move pods",
		"clairvoyant:random": "what is to come", "greedy:luck": "luck", "stock:none.yaml": "none.yaml",
	} {
		if _, err := ProfileNamed(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
}

// WriteTemporary puts no credentials into a directory, where a killed process would leave them. The
// directory for temporary files need not even be there.
func TestWriteTemporaryLeavesNoCredentials(t *testing.T) {
	const token = "5f0c7a9e-the-token"
	source := file(t, `{"apiVersion":"v1","kind":"Config","current-context":"c","clusters":[{"name":"c","cluster":{"server":"https://127.0.0.1:1"}}],`+
		`"users":[{"name":"c","user":{"token":"`+token+`"}}],"contexts":[{"name":"c","context":{"cluster":"c","user":"c"}}]}`)
	t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "none"))
	path, remove, err := WriteTemporary(Config{Profiles: []Profile{{SchedulerName: "a", Args: Args{Policy: "best-fit"}}}, QPS: 1},
		kubeconfig.Target{Kubeconfig: source})
	fatal.If(t, err)
	defer remove()
	f := fatal.Value(userconfig.Read(path))(t)
	b, err := os.ReadFile(f.Kubeconfig())
	if err != nil || !strings.Contains(string(b), token) {
		t.Errorf("the kubeconfig has not the token: %v\n%s", err, b)
	}
}

// What is written is read back, whatever the comment says.
func TestWrittenIsRead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := policytest.DrawProfile(t)
		text := fatal.Value(WriteStockConfig(want, rapid.String().Draw(t, "comment")))(t)
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
		fatal.If(t, os.WriteFile(path, []byte(stockHeader+body), 0o600))
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
	text := fatal.Value(WriteStockConfig(p, "Two lines,\nand a hostile\rone: \x1b[31m\n"))(t)
	fatal.Golden(t, "written.yaml", string(text))
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
		text := fatal.Value(WriteStockConfig(p, string(b)))(t)
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

// The log sums up within seconds which rights the user lacks, once a minute while requests are refused. A refusal by admission names no
// user, and is no lack of a right. Whoever asked gets the whole answer.
func TestRefusalsAreSummedUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []string
		refuse := ""
		x := newRefusals(round(func(r *http.Request) (*http.Response, error) {
			status := http.StatusForbidden
			if refuse == "" {
				status = http.StatusOK
			}
			return &http.Response{StatusCode: status, Body: io.NopCloser(strings.NewReader(refuse))}, nil
		}), funcr.New(func(_, text string) { told = append(told, text) }, funcr.Options{}))
		ask := func(method, path string) {
			t.Helper()
			r := fatal.Value(http.NewRequestWithContext(t.Context(), method, "https://cluster"+path, nil))(t)
			answer := fatal.Value(x.RoundTrip(r))(t)
			if text, err := io.ReadAll(answer.Body); err != nil || string(text) != refuse {
				t.Errorf("%s: %q, %v", path, text, err)
			}
		}
		heard := func(summaries int, want ...string) {
			t.Helper()
			synctest.Wait()
			if len(told) != summaries {
				t.Fatalf("%d summaries, want %d: %q", len(told), summaries, told)
			}
			for _, w := range want {
				if !strings.Contains(told[summaries-1], w) {
					t.Errorf("%s lacks %s", told[summaries-1], w)
				}
			}
		}
		ask(http.MethodGet, "/api/v1/pods?limit=500")
		refuse = `pods "web" is forbidden: exceeded quota: few`
		ask(http.MethodPost, "/api/v1/namespaces/shop/pods")
		time.Sleep(time.Hour)
		heard(0)
		refuse = `pods is forbidden: User "nobody" cannot list resource "pods"` + strings.Repeat(".", 2*refusalText)
		for range 3 {
			ask(http.MethodGet, "/api/v1/pods?limit=500")
		}
		ask(http.MethodPost, "/api/v1/namespaces/shop/pods/web/binding")
		ask(http.MethodGet, "/apis/resource.k8s.io/v1/deviceclasses?watch=true")
		time.Sleep(tellRefused)
		heard(1, `"create pods/binding" "list pods" "watch deviceclasses.resource.k8s.io"`, "gnnsched doctor rungnn")
		for range 130 { // informers try again
			ask(http.MethodGet, "/api/v1/pods?limit=500")
			time.Sleep(time.Second)
		}
		heard(3, `["list pods"]`)
	})
}

// round is a transport.
type round func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f round) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
