package record

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"pgregory.net/rapid"

	"gnnsched/internal/fatal"
)

// After anonymisation no name is left, selectors still match the labels that they matched, and the same key gives the same
// pseudonyms in another process.
func TestAnonymise(t *testing.T) {
	secret := "secret"
	p := Pod{
		UID: "secret-uid", Namespace: "secret-ns", Name: "secret-web-1", OwnerKind: "SecretSet", OwnerName: "secret-web",
		Workload: "SecretSet/secret-web", Scheduler: "secret-scheduler",
		PriorityClass: "secret-high", GPUModels: `["secret-gpu"]`, Extended: `{"secret.io/fpga":"1","ephemeral-storage":"1Gi"}`,
		Labels:       `{"app":"secret-web","secret/team":"secret-red","topology.kubernetes.io/zone":"secret-zone"}`,
		NodeSelector: `{"node-role.kubernetes.io/secret":"","kubernetes.io/arch":"arm64"}`,
		Affinity:     `{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"secret","operator":"In","values":["secret-a"]}],"matchFields":[{"key":"metadata.name","operator":"In","values":["secret-node"]}]}]},"preferredDuringSchedulingIgnoredDuringExecution":[{"weight":1,"preference":{"matchExpressions":[{"key":"secret","operator":"Exists"}]}}]},"podAntiAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[{"labelSelector":{"matchLabels":{"app":"secret-web"}},"namespaces":["secret-ns"],"topologyKey":"secret/rack"}],"preferredDuringSchedulingIgnoredDuringExecution":[{"weight":2,"podAffinityTerm":{"labelSelector":{"matchExpressions":[{"key":"app","operator":"In","values":["secret-web"]}]},"topologyKey":"topology.kubernetes.io/zone","matchLabelKeys":["secret"]}}]}}`,
		Spread:       `[{"maxSkew":1,"topologyKey":"secret/rack","whenUnsatisfiable":"DoNotSchedule","labelSelector":{"matchLabels":{"app":"secret-web"}}}]`,
		Tolerations:  `[{"key":"secret","operator":"Equal","value":"secret-v","effect":"NoSchedule"}]`,
		HostPorts:    `["TCP/0.0.0.0/80","TCP/secret-address/81"]`, Claims: `["secret-claim"]`, Images: `["registry.secret/app:1"]`, Arrived: 1,
		Node: "secret-node",
	}
	n := Node{Name: "secret-node", GPUModel: "secret-gpu", Extended: `{"secret.io/fpga":"1"}`, Capacity: `{"cpu":"1","secret.io/fpga":"1"}`,
		Labels: `{"kubernetes.io/hostname":"secret-node","secret":"secret-a"}`,
		Taints: `[{"key":"secret","value":"secret-v","effect":"NoSchedule"}]`}
	budget := Object{Kind: KindBudget, Namespace: "secret-ns", Name: "secret-pdb", Spec: `{"selector":{"matchLabels":{"app":"secret-web"}}}`}
	space := Object{Kind: KindNamespace, Name: "secret-ns", Spec: `{"secret":"secret"}`}
	class := Object{Kind: KindPriorityClass, Name: "secret-high", Spec: `{"value":7}`}
	sample := Sample{Namespace: "secret-ns", Name: "secret-web-1"}
	broken := Pod{UID: "secret", Affinity: `{"secret": nonsense`}
	key := []byte("0123456789abcdef")
	a, err := NewAnonymiser(key)
	fatal.If(t, err)
	again := p
	Anonymise(a, &p)
	Anonymise(a, &n)
	for _, o := range []*Object{&budget, &space, &class} {
		Anonymise(a, o)
	}
	Anonymise(a, &sample)
	Anonymise(a, &broken)
	all, err := json.Marshal([]any{p, n, budget, space, class, sample, broken})
	fatal.If(t, err)
	if i := strings.Index(strings.ToLower(string(all)), secret); i >= 0 {
		t.Errorf("a name is left: ...%s", all[max(0, i-60):min(len(all), i+60)])
	}
	var labels, nodeLabels map[string]string
	var affinity corev1.Affinity
	fatal.If(t, errors.Join(json.Unmarshal([]byte(p.Labels), &labels), json.Unmarshal([]byte(n.Labels), &nodeLabels),
		json.Unmarshal([]byte(p.Affinity), &affinity)))
	term := affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0]
	node := affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0]
	switch {
	case term.LabelSelector.MatchLabels["app"] != labels["app"] || labels["app"] == "":
		t.Errorf("the selector %v matches %v no more", term.LabelSelector, labels)
	case term.Namespaces[0] != p.Namespace || space.Name != p.Namespace || budget.Namespace != p.Namespace ||
		sample.Namespace != p.Namespace || sample.Name != p.Name:
		t.Errorf("the namespace has several pseudonyms")
	case nodeLabels[node.MatchExpressions[0].Key] != node.MatchExpressions[0].Values[0] || node.MatchFields[0].Values[0] != n.Name ||
		n.Name != p.Node || nodeLabels["kubernetes.io/hostname"] != n.Name:
		t.Errorf("node affinity %+v does not match %+v", node, n)
	case class.Name != p.PriorityClass || n.GPUModel == "" || p.GPUModels != `["`+n.GPUModel+`"]`:
		t.Errorf("class %q and %q, models %q and %q", class.Name, p.PriorityClass, n.GPUModel, p.GPUModels)
	case !strings.Contains(p.NodeSelector, `"kubernetes.io/arch":"arm64"`) || !strings.Contains(p.Labels, `"topology.kubernetes.io/zone"`) ||
		!strings.Contains(p.HostPorts, "TCP/0.0.0.0/80"):
		t.Errorf("well-known names are gone: %s %s %s", p.NodeSelector, p.Labels, p.HostPorts)
	}
	other, _ := NewAnonymiser(key)
	Anonymise(other, &again)
	if d := cmp.Diff(p, again); d != "" {
		t.Errorf("another process: %s", d)
	}
	if _, err := NewAnonymiser(key[:15]); err == nil {
		t.Error("a short key was accepted")
	}
}

// A record accepts the same names as Kubernetes.
func TestSubdomain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.OneOf(rapid.StringMatching(`[a-z0-9.-]{1,12}`), rapid.StringMatching(`[a-c0]([-a-c0]{0,3}[a-c0])?(\.[a-c0]{1,3}){0,3}`),
			rapid.StringN(1, 8, 50)).Draw(t, "name")
		if want := len(validation.IsDNS1123Subdomain(name)) == 0; subdomain(name) != want {
			t.Errorf("%q: %v, want %v", name, !want, want)
		}
	})
}

// A writer leaves out rows that no cluster can have, and counts them. Readers do the same, because another program may have written
// the file, and give the other rows.
func TestRefusedRows(t *testing.T) {
	for what, bad := range map[string]Pod{
		"is none that Kubernetes accepts":                  {UID: "x", Name: "../.."},
		"the column node has control characters":           {UID: "x", Name: "p", Node: "a\x1b[31m"},
		"the name of a pod has 300 bytes":                  {UID: "x", Name: strings.Repeat("a", 300)},
		"the name of a namespace, \"A B\"":                 {UID: "x", Namespace: "A B", Name: "p"},
		"the name of a priority class":                     {UID: "x", Name: "p", PriorityClass: "$(reboot)"},
		"the column owner_name has control characters":     {UID: "x", Name: "p", OwnerName: "a\u009bm"},
		"the column images has control characters":         {UID: "x", Name: "p", Images: "[\"a\xff\"]"},
		"the uid of pod \"p\" has 508 bytes":               {UID: strings.Repeat("u", 508), Name: "p"},
		"the time 253402300800000 is not in 1970 to 9999":  {UID: "x", Name: "p", Ended: maxTime + 1},
		"\"p\": -1 thousandths of a core are out of range": {UID: "x", Name: "p", MilliCPU: -1},
	} {
		dir := t.TempDir()
		w := create(t, dir, Options{})
		w.Pod(bad)
		w.Pod(pod("a", 1))
		if f := flush(t, w); f.Rows != 1 || f.Refused.Rows != 1 || !strings.Contains(f.Refused.First.Error(), what) {
			t.Errorf("%s: %+v", what, f)
		}
		p := part{"pods", 1, 1}
		fatal.If(t, os.Remove(filepath.Join(dir, p.file())))
		fatal.If(t, write(dir, p, func(put func([]Pod) error) error { return put([]Pod{bad, pod("a", 1)}) }))
		r, err := Open(dir)
		fatal.If(t, err)
		got, err := r.Pods()
		if err != nil || len(got) != 1 || got[0].UID != "a" {
			t.Errorf("%s: %d pods, %v", what, len(got), err)
		}
		if d := r.Damaged(); len(d) != 1 || !strings.Contains(d[0], "pods-000001.parquet: rows: 1, such as row 1: ") ||
			!strings.Contains(d[0], what) {
			t.Errorf("%s: damaged %q", what, d)
		}
	}
	long := Pod{UID: "x", Name: "p", Affinity: strings.Repeat("a", maxColumn+1)}
	if err := Check(&long); err == nil || err.Error() != "the column affinity has 16777217 bytes, want 16777216 at most" {
		t.Error(err)
	}
	if got := Word("a\x1b[31m\xff" + strings.Repeat("b", 300)); got != "a[31m"+strings.Repeat("b", 246) {
		t.Errorf("%q", got)
	}
}
