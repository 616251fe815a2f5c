package deploy

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/lint/rules"
	"helm.sh/helm/v3/pkg/lint/support"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	kyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
	rbacvalidation "k8s.io/component-helpers/auth/rbac/validation"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac/bootstrappolicy"
	podsecurity "k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	"sigs.k8s.io/yaml"

	"gnnsched/internal/exit"
	"gnnsched/internal/fatal"
	"gnnsched/internal/kuberelease"
	"gnnsched/scheduler/defrag"
	"gnnsched/scheduler/plugin/userconfig"
)

// with returns the usual options with values.
func with(set ...string) Options {
	return Options{Name: "gnnsched", Namespace: "gnnsched", Set: strings.Join(set, ",")}
}

// The plain manifests in this folder equal the chart's output.
func TestPlainManifests(t *testing.T) {
	for _, mode := range modes() {
		o := with()
		o.Mode = mode
		text := fatal.Value(Render(o))(t)
		fatal.Golden(t, "../"+mode+".yaml", string(text))
	}
}

// variants are values, each of which changes the rendered manifests.
var variants = map[string][]string{
	"defaults":       nil,
	"replacement":    {"mode=replacement"},
	"other command":  {"command=runacgnn", "args={--preferences=declared}"},
	"config map":     {"checkpoint.configMap=weights", "checkpoint.file=my.safetensors"},
	"claim":          {"checkpoint.persistentVolumeClaim=weights", "checkpoint.file=net/my.safetensors"},
	"image volume":   {"checkpoint.image=registry.example/weights:v1", "checkpoint.file=my.safetensors"},
	"metrics API":    {"usage.source=metrics.k8s.io"},
	"Prometheus":     {"usage.source=prometheus", "usage.address=https://prometheus.monitoring:9090"},
	"monitoring":     {"serviceMonitor.enabled=true", "serviceMonitor.labels.release=prometheus"},
	"configuration":  {"config.profiles[0].schedulerName=one", "config.profiles[1].schedulerName=Two_2"},
	"closed network": {"networkPolicy.metricsFrom=null", "networkPolicy.apiServerCIDRs={10.0.0.1/32}"},
	"feature gates":  {"featureGates.DRAListTypeAttributes=true"},
	"open network":   {"networkPolicy.enabled=false"},
	"placed": {"nodeSelector.pool=system", "tolerations[0].key=system", "tolerations[0].operator=Exists",
		"imagePullSecrets[0].name=registry"},
}

// Every object has only fields of its kind, and restricted pod security admits every pod.
func TestVariants(t *testing.T) {
	evaluator := fatal.Value(policy.NewEvaluator(policy.DefaultChecks(), nil))(t)
	plain, err := Render(with())
	fatal.If(t, err)
	restricted := podsecurity.LevelVersion{Level: podsecurity.LevelRestricted, Version: podsecurity.LatestVersion()}
	for name, set := range variants {
		t.Run(name, func(t *testing.T) {
			text := fatal.Value(Render(with(set...)))(t)
			fatal.Golden(t, strings.ReplaceAll(name, " ", "-")+".txt", changed(plain, text))
			d := find[*appsv1.Deployment](t, text)
			pod := d.Spec.Template
			for _, r := range evaluator.EvaluatePod(restricted, &pod.ObjectMeta, &pod.Spec) {
				if !r.Allowed {
					t.Errorf("restricted pod security forbids it: %s (%s)", r.ForbiddenReason, r.ForbiddenDetail)
				}
			}
			if s := pod.Spec.Containers[0].SecurityContext; !*s.ReadOnlyRootFilesystem || *s.RunAsUser == 0 {
				t.Errorf("the container may write to its root, or is root: %v", s)
			}
		})
	}
}

// changed lists the lines that only one of two texts has, however often it has them.
func changed(before, after []byte) string {
	a, b := strings.Split(string(before), "\n"), strings.Split(string(after), "\n")
	var out strings.Builder
	for _, side := range []struct {
		sign        string
		lines, less []string
	}{{"-", a, b}, {"+", b, a}} {
		for _, line := range side.lines {
			if !slices.Contains(side.less, line) {
				out.WriteString(side.sign + line + "\n")
			}
		}
	}
	return out.String()
}

// find returns the one object of a type.
func find[T runtime.Object](t *testing.T, text []byte) (found T) {
	t.Helper()
	n := 0
	for _, o := range objects(t, text) {
		if x, is := o.(T); is {
			found, n = x, n+1
		}
	}
	if n != 1 {
		t.Fatalf("%d objects of type %T, want 1", n, found)
	}
	return found
}

// objects decodes manifests and fails for a field that a kind does not have. Kinds that Kubernetes does not
// have itself are left out.
func objects(t *testing.T, text []byte) (out []runtime.Object) {
	t.Helper()
	decoder := serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()
	docs := kyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	for {
		doc, err := docs.Read()
		if errors.Is(err, io.EOF) {
			return out
		}
		fatal.If(t, err)
		o, _, err := decoder.Decode(doc, nil, nil)
		if runtime.IsNotRegisteredError(err) {
			continue
		}
		if err != nil {
			t.Fatalf("%v:\n%s", err, doc)
		}
		out = append(out, o)
	}
}

// The rights do not exceed upstream's scheduler's, except for those listed here.
func TestRights(t *testing.T) {
	text := fatal.Value(Render(with("usage.source=metrics.k8s.io")))(t)
	var upstream []rbacv1.PolicyRule
	for _, r := range bootstrappolicy.ClusterRoles() {
		if r.Name == "system:kube-scheduler" || r.Name == "system:volume-scheduler" {
			upstream = append(upstream, r.Rules...)
		}
	}
	if len(upstream) < 20 {
		t.Fatalf("upstream's roles have %d rules", len(upstream))
	}
	_, more := rbacvalidation.Covers(upstream, find[*rbacv1.ClusterRole](t, text).Rules)
	want := []string{
		`{"verbs":["list"],"apiGroups":["metrics.k8s.io"],"resources":["nodes"]}`,
		`{"verbs":["list"],"apiGroups":["metrics.k8s.io"],"resources":["pods"]}`,
	}
	// the chart serves both releases; upstream's role has these since 1.37, and before with a feature gate
	if kuberelease.Scheduler == "1.36" {
		for _, verb := range []string{"get", "list", "watch"} {
			want = append(want, `{"verbs":["`+verb+`"],"apiGroups":["resource.k8s.io"],"resources":["devicetaintrules"]}`)
		}
		slices.Sort(want)
	}
	if got := asText(t, more); !slices.Equal(got, want) {
		t.Errorf("beyond upstream's:\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	leases := find[*rbacv1.Role](t, text)
	_, more = rbacvalidation.Covers(upstream, leases.Rules)
	want = []string{
		`{"verbs":["get"],"apiGroups":["coordination.k8s.io"],"resources":["leases"],"resourceNames":["gnnsched"]}`,
		`{"verbs":["get"],"apiGroups":["coordination.k8s.io"],"resources":["leases"],"resourceNames":["gnnsched-gnn"]}`,
		`{"verbs":["update"],"apiGroups":["coordination.k8s.io"],"resources":["leases"],"resourceNames":["gnnsched"]}`,
		`{"verbs":["update"],"apiGroups":["coordination.k8s.io"],"resources":["leases"],"resourceNames":["gnnsched-gnn"]}`,
	}
	if got := asText(t, more); leases.Namespace != "kube-system" || !slices.Equal(got, want) {
		t.Errorf("beyond upstream's, in %s:\n%s\nwant\n%s", leases.Namespace, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// The defragmenter has the rights that its command prints, restricted pod security admits it, and no
// label of it is one of the scheduler's selector.
func TestDefrag(t *testing.T) {
	plain := fatal.Value(Render(with()))(t)
	text := fatal.Value(Render(with("defrag.enabled=true", "defrag.args={--every=1h,--between=02:00-05:00}")))(t)
	own := bytes.Join(slices.DeleteFunc(bytes.Split(text, []byte("\n---\n")),
		func(doc []byte) bool { return !bytes.Contains(doc, []byte("gnnsched-defrag")) }), []byte("\n---\n"))
	printed := fatal.Value(defrag.RBAC(true))(t)
	role, want := find[*rbacv1.ClusterRole](t, own), find[*rbacv1.ClusterRole](t, printed)
	if !reflect.DeepEqual(role.Rules, want.Rules) {
		t.Errorf("rights\n%v\nwant\n%v", asText(t, role.Rules), asText(t, want.Rules))
	}
	d := find[*appsv1.Deployment](t, own)
	pod := d.Spec.Template
	evaluator := fatal.Value(policy.NewEvaluator(policy.DefaultChecks(), nil))(t)
	for _, r := range evaluator.EvaluatePod(podsecurity.LevelVersion{Level: podsecurity.LevelRestricted,
		Version: podsecurity.LatestVersion()}, &pod.ObjectMeta, &pod.Spec) {
		if !r.Allowed {
			t.Errorf("restricted pod security forbids it: %s (%s)", r.ForbiddenReason, r.ForbiddenDetail)
		}
	}
	if s := pod.Spec.Containers[0].SecurityContext; !*s.ReadOnlyRootFilesystem || *s.RunAsUser == 0 {
		t.Errorf("the container may write to its root, or is root: %v", s)
	}
	if args := pod.Spec.Containers[0].Args; !slices.Equal(args,
		[]string{"defrag", "--apply", "--yes", "--log-dir=", "--every=1h", "--between=02:00-05:00"}) {
		t.Errorf("%q", args)
	}
	if labels.SelectorFromSet(find[*appsv1.Deployment](t, plain).Spec.Selector.MatchLabels).Matches(labels.Set(pod.Labels)) {
		t.Errorf("the scheduler's selector takes %v", pod.Labels)
	}
}

// asText renders rules, sorted.
func asText(t *testing.T, rules []rbacv1.PolicyRule) (out []string) {
	t.Helper()
	for _, r := range rules {
		text := fatal.Value(json.Marshal(r))(t)
		out = append(out, string(text))
	}
	slices.Sort(out)
	return out
}

// Names that YAML would read as numbers, truth values or nothing stay names.
func TestNamesStayText(t *testing.T) {
	for name, other := range map[string]string{"true": "123", "null": "1e3", "on": "0x1f", "y": "1"} {
		values := filepath.Join(t.TempDir(), "values.yaml")
		content := strings.ReplaceAll(`{image: "NAME", priorityClassName: "NAME", checkpoint: {configMap: "NAME", file: w.safetensors},
			serviceMonitor: {enabled: true, reader: {name: "NAME", namespace: "NAME"}}}`, "NAME", other)
		fatal.If(t, os.WriteFile(values, []byte(content), 0o600))
		text, err := Render(Options{Name: name, Namespace: other, ValueFiles: []string{values}})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		d := find[*appsv1.Deployment](t, text)
		s := d.Spec.Template.Spec
		got := []string{
			d.Name, d.Spec.Selector.MatchLabels["app.kubernetes.io/instance"], s.ServiceAccountName, d.Namespace, s.PriorityClassName,
			s.Containers[0].Image, s.Volumes[1].ConfigMap.Name,
		}
		if want := []string{name, name, name, other, other, other, other}; !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// The right to a scheduler name's mark is one to the lease that the scheduler makes.
func TestMarks(t *testing.T) {
	for _, name := range []string{"gnn", "Two_2", "a.b", "-a", "a-", "a..b", "123", strings.Repeat("a", 244), strings.Repeat("a", 245),
		strings.Repeat("a", 253)} {
		values := filepath.Join(t.TempDir(), "values.yaml")
		fatal.If(t, os.WriteFile(values, fmt.Appendf(nil, "config: {profiles: [{schedulerName: %q}]}\n", name), 0o600))
		o := with()
		o.ValueFiles = []string{values}
		text, err := Render(o)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		rules := find[*rbacv1.Role](t, text).Rules
		if got := rules[len(rules)-1].ResourceNames; !slices.Contains(got, userconfig.ShareLeaseOf(name)) {
			t.Errorf("%s: the right is one to %v, but the lease is %s", name, got, userconfig.ShareLeaseOf(name))
		}
	}
}

// A node with a single replica can be drained.
func TestOneReplicaCanBeEvicted(t *testing.T) {
	text := fatal.Value(Render(with("replicas=1")))(t)
	if b := find[*policyv1.PodDisruptionBudget](t, text).Spec; b.MinAvailable != nil || b.MaxUnavailable.IntValue() < 1 {
		t.Errorf("the budget is %+v", b)
	}
}

// Helm's linter finds nothing.
func TestLint(t *testing.T) {
	l := support.Linter{ChartDir: chartFolder}
	rules.Chartfile(&l)
	rules.ValuesWithOverrides(&l, nil)
	version := fatal.Value(chartutil.ParseKubeVersion(kubeVersion))(t)
	rules.TemplatesWithKubeVersion(&l, nil, "gnnsched", version)
	for _, m := range l.Messages {
		if m.Severity >= support.WarningSev {
			t.Error(m.Error())
		}
	}
}

// The program embeds every file of the chart.
func TestEmbedded(t *testing.T) {
	c := fatal.Value(load())(t)
	on := fatal.Value(filepath.Glob(filepath.Join(chartFolder, "templates", "*")))(t)
	if len(c.Templates) != len(on) || c.Schema == nil || len(c.Values) == 0 {
		t.Errorf("%d templates, want %d; schema %t; %d values", len(c.Templates), len(on), c.Schema != nil, len(c.Values))
	}
}

func TestValueFiles(t *testing.T) {
	first, second := filepath.Join(t.TempDir(), "a.yaml"), filepath.Join(t.TempDir(), "b.yaml")
	fatal.If(t, errors.Join(
		os.WriteFile(first, []byte("replicas: 3\ncommand: rundqn\nnamespace: {create: false}\n"), 0o600),
		os.WriteFile(second, []byte("replicas: 4\n"), 0o600),
	))
	o := with("image=registry.example/a:b")
	o.ValueFiles = []string{first, second}
	text := fatal.Value(Render(o))(t)
	d := find[*appsv1.Deployment](t, text)
	if *d.Spec.Replicas != 4 || d.Spec.Template.Spec.Containers[0].Args[0] != "rundqn" ||
		d.Spec.Template.Spec.Containers[0].Image != "registry.example/a:b" {
		t.Errorf("replicas %d, container %v", *d.Spec.Replicas, d.Spec.Template.Spec.Containers[0])
	}
	if bytes.Contains(text, []byte("kind: Namespace")) {
		t.Error("there is a namespace, which the values file turned off")
	}
}

// Each wrong value is refused with its name.
func TestBadInput(t *testing.T) {
	noYAML := filepath.Join(t.TempDir(), "values.yaml")
	fatal.If(t, os.WriteFile(noYAML, []byte("a: [\n"), 0o600))
	for _, c := range []struct {
		o    Options
		want string
	}{
		{Options{Name: "gnnsched", Namespace: "A b"}, `--namespace "A b"`},
		{Options{Name: "../x", Namespace: "gnnsched"}, `--name "../x"`},
		{Options{Name: "1a", Namespace: "gnnsched"}, "begins with a letter"},
		{Options{Name: strings.Repeat("a", 54), Namespace: "gnnsched"}, "at most 53"},
		{Options{Name: "gnnsched", Namespace: "gnnsched", Mode: "third"}, `--mode "third"`},
		{Options{Name: "gnnsched", Namespace: "gnnsched", ValueFiles: []string{"missing.yaml"}}, "missing.yaml"},
		{Options{Name: "gnnsched", Namespace: "gnnsched", ValueFiles: []string{noYAML}}, "values.yaml"},
		{with("x"), "--set x"},
		{with("imgae=x"), "imgae"},
		{with("image="), "image"},
		{with("image=a b"), "image"},
		{with("command=sh"), "command"},
		{with("replicas=-1"), "replicas"},
		{with("schedulerName=default-scheduler"), "choose mode=replacement"},
		{with("schedulerName=x\nrules: []"), "schedulerName"},
		{with("checkpoint.file=a"), "file needs"},
		{with("checkpoint.file=../a", "checkpoint.configMap=w"), "checkpoint"},
		{with("checkpoint.configMap=w"), "file is missing"},
		{with("checkpoint.file=a", "checkpoint.configMap=w", "checkpoint.image=i"), "only one"},
		{with("usage.source=prometheus"), "needs an address"},
		{with("usage.source=metrics.k8s.io", "usage.address=http://x"), "for the source prometheus"},
		{with("usage.source=prometheus", "usage.address=https://user:secret@host"), "address"},
		{with("podDisruptionBudget.maxUnavailable=1\nx: y"), "maxUnavailable"},
		{with("config.profiles[0].schedulerName=a", "args={--learn}"), "config excludes"},
		{with("compute[0].name=a", "compute[0].kind=Job", "compute[0].args={work}", "compute[0].labels.x=5"), "got number, want string"},
		{with("config.leaderElection.leaderElect=false", "config.profiles[0].schedulerName=a"), "leaderElect must be true"},
		{with("config.leaderElection.resourceNamespace=x", "config.profiles[0].schedulerName=a"), "resourceNamespace"},
		{with("config.clientConnection.kubeconfig=x", "config.profiles[0].schedulerName=a"), "kubeconfig"},
		{with("config.kind=KubeSchedulerConfiguration"), "default-scheduler"},
		{with("mode=replacement", "config.profiles[0].schedulerName=a"), "must be kube-scheduler"},
	} {
		_, err := Render(c.o)
		if err == nil || !strings.Contains(err.Error(), c.want) || exit.Code(err) != exit.Usage {
			t.Errorf("%+v: %v, code %d, want a usage error with %q", c.o, err, exit.Code(err), c.want)
		}
	}
}

// For any settings, either the values are refused, or the manifests keep their safety properties.
func FuzzSet(f *testing.F) {
	for _, set := range variants {
		f.Add(strings.Join(set, ","))
	}
	f.Add("image=x\n        securityContext: {}")
	f.Add("resources.x=a: b\nc: d")
	f.Add("podAnnotations.a=b\\nc")
	f.Add("global.x=1,tolerations[0].key=a")
	f.Fuzz(func(t *testing.T, set string) {
		text, err := Render(with(set))
		if err != nil {
			if exit.Code(err) != exit.Usage {
				t.Fatalf("%q: %v has code %d", set, err, exit.Code(err))
			}
			return
		}
		d, err := safeDeployment(text)
		if err != nil {
			t.Fatalf("%q: %v", set, err)
		}
		s := d.Spec.Template.Spec
		if c := s.Containers; len(c) != 1 || s.HostNetwork || c[0].SecurityContext == nil || !*c[0].SecurityContext.ReadOnlyRootFilesystem ||
			*c[0].SecurityContext.AllowPrivilegeEscalation {
			t.Errorf("%q: the pod is not safe: %+v", set, s)
		}
	})
}

// safeDeployment returns the one Deployment of manifests in which types may be wrong, as --set can make them.
func safeDeployment(text []byte) (*appsv1.Deployment, error) {
	docs := kyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	var found *appsv1.Deployment
	for {
		doc, err := docs.Read()
		if errors.Is(err, io.EOF) {
			if found == nil {
				err = errors.New("there is no Deployment")
			} else {
				err = nil
			}
			return found, err
		}
		var o map[string]any
		if err == nil {
			err = yaml.Unmarshal(doc, &o)
		}
		if err != nil {
			return nil, err
		}
		if name, _, _ := unstructured.NestedString(o, "metadata", "name"); o["kind"] != "Deployment" || name == "gnnsched-defrag" {
			continue
		}
		if found != nil {
			return nil, errors.New("there are two Deployments")
		}
		// Values that the API server would refuse for their type do no harm.
		spec, _, _ := unstructured.NestedMap(o, "spec", "template", "spec")
		for _, open := range []string{"tolerations", "nodeSelector", "imagePullSecrets"} {
			delete(spec, open)
		}
		list, _, _ := unstructured.NestedSlice(o, "spec", "template", "spec", "containers")
		for _, c := range list {
			delete(c.(map[string]any), "resources")
		}
		spec["containers"] = list
		found = &appsv1.Deployment{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(map[string]any{"spec": map[string]any{"template": map[string]any{"spec": spec}}}, found); err != nil {
			return nil, err
		}
	}
}

// The processes of compute.yaml are a Job and Deployments that restricted pod security admits, and no label of theirs is one of the
// scheduler's selector.
func TestCompute(t *testing.T) {
	plain := fatal.Value(Render(with()))(t)
	o := with()
	o.ValueFiles = []string{"compute.yaml"}
	text := fatal.Value(Render(o))(t)
	fatal.Golden(t, "compute.txt", changed(plain, text))
	evaluator := fatal.Value(policy.NewEvaluator(policy.DefaultChecks(), nil))(t)
	taken := labels.SelectorFromSet(find[*appsv1.Deployment](t, plain).Spec.Selector.MatchLabels)
	pods := map[string]corev1.PodTemplateSpec{"evaluation": find[*batchv1.Job](t, text).Spec.Template}
	for _, o := range objects(t, text) {
		if d, is := o.(*appsv1.Deployment); is && d.Name != "gnnsched" {
			pods[d.Name] = d.Spec.Template
		}
	}
	for name, pod := range pods {
		for _, r := range evaluator.EvaluatePod(podsecurity.LevelVersion{Level: podsecurity.LevelRestricted,
			Version: podsecurity.LatestVersion()}, &pod.ObjectMeta, &pod.Spec) {
			if !r.Allowed {
				t.Errorf("%s: restricted pod security forbids it: %s (%s)", name, r.ForbiddenReason, r.ForbiddenDetail)
			}
		}
		if taken.Matches(labels.Set(pod.Labels)) {
			t.Errorf("the scheduler's selector takes %v", pod.Labels)
		}
	}
	if len(pods) != 2 {
		t.Errorf("%d kinds of pods", len(pods))
	}
	none := fatal.Value(Render(with("compute[0].name=a", "compute[0].kind=Job", "compute[0].args={work}", "compute[0].replicas=0")))(t)
	if n := find[*batchv1.Job](t, none).Spec.Parallelism; *n != 0 {
		t.Errorf("%d pods instead of none", *n)
	}
}
