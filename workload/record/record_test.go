package record

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
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

func TestMain(m *testing.M) {
	toDisk = func(*os.File) error { return nil }
	os.Exit(m.Run())
}

func pod(uid string, arrived int64) Pod {
	return Pod{UID: uid, Namespace: "shop", Name: uid, OwnerKind: "ReplicaSet", OwnerName: "web-1", Workload: "Deployment/web",
		Scheduler: "default-scheduler",
		MilliCPU:  250, Memory: 1 << 28, Labels: `{"app":"web","team":"red"}`, Arrived: arrived}
}

func create(t testing.TB, dir string, o Options) *Writer {
	t.Helper()
	w := fatal.Value(Create(dir, o))(t)
	t.Cleanup(func() { w.lock.Close() })
	return w
}

func flush(t testing.TB, w *Writer) Flushed {
	t.Helper()
	return fatal.Value(w.Flush())(t)
}

func pods(t testing.TB, dir string) []Pod {
	t.Helper()
	r := fatal.Value(Open(dir))(t)
	return fatal.Value(r.Pods())(t)
}

// Every table is read back equal, with the last row of each key.
func TestRoundTrip(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "r")
	w := create(t, dir, Options{})
	a, b := pod("a", 1000), pod("b", 2000)
	n := Node{Name: "n", From: 5, MilliCPU: 4000, Memory: 1 << 33, Pods: 110, Taints: `[{"key":"k","effect":"NoSchedule"}]`}
	o := Object{Kind: KindNamespace, Name: "shop", From: 5, Spec: `{"a":"b"}`, Scale: `{"replicas":1}`}
	s := Sample{Time: 7, Name: "n", MilliCPU: 12, Memory: 99}
	run := Run{ID: "1", Source: "live", From: 1, To: 8}
	w.Pod(a)
	w.Pod(b)
	w.Node(n)
	w.Object(o)
	w.Sample(s)
	w.Run(run)
	if f := flush(t, w); f != (Flushed{Rows: 6}) {
		t.Errorf("flushed %+v", f)
	}
	a.Bound, a.Node, a.Ended, a.End = 1500, "n", 9000, Succeeded
	n.To = 10
	w.Pod(a)
	w.Node(n)
	flush(t, w)
	if f := flush(t, w); f != (Flushed{}) {
		t.Errorf("nothing was new, and it flushed %+v", f)
	}

	r := fatal.Value(Open(dir))(t)
	gotPods, err1 := r.Pods()
	gotNodes, err2 := r.Nodes()
	gotObjects, err3 := r.Objects()
	gotRuns, err4 := r.Runs()
	var gotSamples []Sample
	err5 := r.Samples(func(s Sample) error { gotSamples = append(gotSamples, s); return nil })
	fatal.If(t, errors.Join(err1, err2, err3, err4, err5))
	for _, d := range []string{
		cmp.Diff([]Pod{a, b}, gotPods), cmp.Diff([]Node{n}, gotNodes), cmp.Diff([]Object{o}, gotObjects), cmp.Diff([]Run{run}, gotRuns),
		cmp.Diff([]Sample{s}, gotSamples),
	} {
		if d != "" {
			t.Error(d)
		}
	}
	open, err := r.Unfinished()
	if err != nil || len(open.Pods) != 1 || open.Pods[0].UID != "b" || len(open.Nodes) != 0 || len(open.Objects) != 1 {
		t.Errorf("unfinished %+v, %v", open, err)
	}
	if Is(t.TempDir()) || !Is(dir) || Is(filepath.Join(dir, "pods-000001.parquet")) {
		t.Error("Is does not tell records from others")
	}
}

// Without a disk, rows wait in memory; beyond the limit the oldest are lost, and the record holds their number.
func TestDiskFull(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "r")
	w := create(t, dir, Options{Limit: 8})
	fatal.If(t, os.RemoveAll(dir))
	for i := range 9 {
		w.Pod(pod(fmt.Sprint(i), int64(i+1)))
		w.Sample(Sample{Time: int64(i), Name: "n"})
	}
	w.Run(Run{ID: "1", From: 1, To: 2})
	f, err := w.Flush()
	if err == nil || f != (Flushed{Pending: 6 + 6 + 1, Lost: 6}) {
		t.Errorf("%+v, %v: want an error, and 3 of 9 rows lost in each of two tables", f, err)
	}
	w.Pod(pod("8", 99)) // known and pending
	fatal.If(t, os.Mkdir(dir, 0o700))
	if f := flush(t, w); f.Rows != 13 || f.Pending != 0 || f.Lost != 6 {
		t.Errorf("%+v", f)
	}
	got := pods(t, dir)
	if len(got) != 6 || got[0].UID != "3" || got[5].Arrived != 99 {
		t.Errorf("pods %+v", got)
	}
	r, _ := Open(dir)
	if runs, err := r.Runs(); err != nil || len(runs) != 1 || runs[0].Lost != 6 {
		t.Errorf("runs %+v, %v", runs, err)
	}
}

func TestCreateRefuses(t *testing.T) {
	dir := t.TempDir()
	w := create(t, dir, Options{})
	if _, err := Create(dir, Options{}); !errors.Is(err, ErrLocked) {
		t.Errorf("a second writer: %v", err)
	}
	fatal.Value(w.Close())(t)
	if w, err := Create(dir, Options{}); err != nil {
		t.Errorf("after the first has closed: %v", err)
	} else {
		w.lock.Close()
	}
	fatal.If(t, os.WriteFile(filepath.Join(dir, "photo.jpg"), nil, 0o600))
	if _, err := Create(dir, Options{}); err == nil || !strings.Contains(err.Error(), "photo.jpg") {
		t.Errorf("a folder of other files: %v", err)
	}
}

// A part that is cut off anywhere, or has other damage, leaves the others readable; a reader never panics.
func TestDamagedParts(t *testing.T) {
	dir := t.TempDir()
	w := create(t, dir, Options{})
	w.Pod(pod("a", 1))
	flush(t, w)
	w.Pod(pod("b", 2))
	flush(t, w)
	path := filepath.Join(dir, "pods-000002.parquet")
	whole := fatal.Value(os.ReadFile(path))(t)
	for cut := 0; cut < len(whole); cut += 97 {
		fatal.If(t, os.WriteFile(path, whole[:cut], 0o600))
		r := fatal.Value(Open(dir))(t)
		got, err := r.Pods()
		if err != nil || len(got) != 1 || got[0].UID != "a" || len(r.Damaged()) != 1 || !strings.Contains(r.Damaged()[0], "pods-000002.parquet") {
			t.Fatalf("cut to %d bytes: %d pods, %v, damaged %v", cut, len(got), err, r.Damaged())
		}
	}
}

func TestReadRefuses(t *testing.T) {
	for _, c := range []struct {
		name string
		row  Pod
		edit func([]byte) []byte
		want string
	}{
		{"no uid", Pod{}, nil, "row 1: pod \"\" has no uid"},
		{"negative", Pod{UID: "a", MilliCPU: -1}, nil, "-1 thousandths of a core are out of range"},
		{"negative memory", Pod{UID: "a", Memory: -1}, nil, "-1 bytes are out of range"},
		{"far future", Pod{UID: "a", Arrived: maxTime + 1}, nil, "is not in 1970 to 9999"},
		{"share", Pod{UID: "a", GPUMilli: 1000}, nil, "gpu_milli 1000"},
		{"version", Pod{UID: "a"}, func(b []byte) []byte {
			return bytes.Replace(b, []byte(versionKey+"\x18\x011"), []byte(versionKey+"\x18\x017"), 1)
		}, `another version of the format: "7", and this program reads 1`},
		{"table", Pod{UID: "a"}, func(b []byte) []byte {
			return bytes.Replace(b, []byte(tableKey+"\x18\x04pods"), []byte(tableKey+"\x18\x04pets"), 1)
		}, `says table "pets"`},
		{"no Parquet", Pod{UID: "a"}, func([]byte) []byte { return []byte("uid,name\n1,a\n") }, ""},
	} {
		dir := t.TempDir()
		p := part{"pods", 1, 1}
		fatal.If(t, write(dir, p, func(put func([]Pod) error) error { return put([]Pod{c.row}) }))
		data, err := os.ReadFile(filepath.Join(dir, p.file()))
		fatal.If(t, err)
		if c.edit != nil {
			data = c.edit(data)
		}
		err = read(bytes.NewReader(data), int64(len(data)), func([]Pod) error { return nil }, func(err error) error { return err })
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

// No bytes make a reader panic, and rows that it gives are valid.
func FuzzRead(f *testing.F) {
	dir := f.TempDir()
	w := create(f, dir, Options{})
	w.Pod(pod("a", 1))
	b := pod("b", 2)
	b.Bound, b.Node, b.Tolerations = 3, "n", `[{"key":"k"}]`
	w.Pod(b)
	flush(f, w)
	data, err := os.ReadFile(filepath.Join(dir, "pods-000001.parquet"))
	fatal.If(f, err)
	f.Add(data)
	f.Add(data[:len(data)/2])
	f.Fuzz(func(t *testing.T, data []byte) {
		_ = read(bytes.NewReader(data), int64(len(data)), func(rows []Pod) error {
			for i := range rows {
				if err := Check(&rows[i]); err != nil {
					t.Error(err)
				}
			}
			return nil
		}, func(error) error { return nil })
	})
}

// However rows are divided into flushes, and whenever files are merged, a reader sees the last row of each pod, and all samples.
func TestMergeKeepsTheRecord(t *testing.T) {
	sizes := mergeSizes
	mergeSizes = []int{3, 6}
	defer func() { mergeSizes = sizes }()
	rapid.Check(t, func(t *rapid.T) {
		dir := fatal.Value(os.MkdirTemp("", "record"))(t)
		defer os.RemoveAll(dir)
		w := fatal.Value(Create(dir, Options{}))(t)
		defer w.lock.Close()
		want, samples := map[string]Pod{}, 0
		for i := range rapid.IntRange(1, 8).Draw(t, "flushes") {
			for range rapid.IntRange(0, 4).Draw(t, "rows") {
				p := pod(fmt.Sprint("p", rapid.IntRange(0, 9).Draw(t, "pod")), int64(i+1))
				want[p.UID] = p
				w.Pod(p)
			}
			w.Sample(Sample{Time: int64(i), Name: "n"})
			samples++
			fatal.Value(w.Flush())(t)
			if rapid.Bool().Draw(t, "merge") {
				fatal.If(t, w.Merge(0))
			}
		}
		fatal.If(t, w.Merge(0))
		r := fatal.Value(Open(dir))(t)
		all := fatal.Value(r.Pods())(t)
		got := map[string]Pod{}
		for _, p := range all {
			got[p.UID] = p
		}
		if d := cmp.Diff(want, got); d != "" || len(all) != len(got) {
			t.Fatal(d)
		}
		if err := r.Samples(func(Sample) error { samples--; return nil }); err != nil || samples != 0 {
			t.Fatalf("%d samples are missing, %v", samples, err)
		}
	})
}

func TestMergeMakesFewFiles(t *testing.T) {
	dir := t.TempDir()
	w := create(t, dir, Options{})
	for i := range 30 {
		w.Pod(pod(fmt.Sprint(i), int64(i+1)))
		flush(t, w)
	}
	fatal.If(t, w.Merge(0))
	parts, replaced, err := list(dir)
	if err != nil || len(replaced) > 0 || len(parts) != 2+6 || parts[0].file() != "pods-000001-000012.parquet" {
		t.Errorf("parts %v, replaced %v, %v: want two hours and six flushes", parts, replaced, err)
	}
}

// A damaged part keeps its hour from being merged. That is reported once, and the other hours are merged.
func TestMergeLeavesDamageAlone(t *testing.T) {
	dir := t.TempDir()
	w := create(t, dir, Options{})
	for i := range 30 {
		w.Pod(pod(fmt.Sprint(i), int64(i+1)))
		flush(t, w)
	}
	fatal.If(t, os.WriteFile(filepath.Join(dir, "pods-000003.parquet"), []byte("PAR1"), 0o600))
	if err := w.Merge(0); err == nil || !strings.Contains(err.Error(), "pods-000003.parquet") {
		t.Errorf("%v", err)
	}
	if err := w.Merge(0); err != nil {
		t.Errorf("said again: %v", err)
	}
	if parts, _, err := list(dir); err != nil || len(parts) != 12+1+6 || len(pods(t, dir)) != 29 {
		t.Errorf("parts %v, %d pods, %v", parts, len(pods(t, dir)), err)
	}
}

// A process that is killed while it merges leaves both the merged file and its sources. Readers count rows once, and the next writer
// removes the superfluous files.
func TestKilledWhileMerging(t *testing.T) {
	dir := t.TempDir()
	w := create(t, dir, Options{})
	w.Sample(Sample{Time: 1, Name: "n"})
	flush(t, w)
	w.Sample(Sample{Time: 2, Name: "n"})
	flush(t, w)
	keep := fatal.Value(os.ReadFile(filepath.Join(dir, "usage-000001.parquet")))(t)
	group := []part{{"usage", 1, 1}, {"usage", 2, 2}}
	fatal.If(t, mergeParts[Sample](dir, group, 0))
	for file, data := range map[string][]byte{"usage-000001.parquet": keep, ".part-123": []byte("PAR1")} {
		fatal.If(t, os.WriteFile(filepath.Join(dir, file), data, 0o600))
	}
	r, err := Open(dir)
	n := 0
	if err := errors.Join(err, r.Samples(func(Sample) error { n++; return nil })); err != nil || n != 2 {
		t.Errorf("%d samples, %v", n, err)
	}
	fatal.Value(w.Close())(t)
	w = create(t, dir, Options{})
	if files, _ := filepath.Glob(filepath.Join(dir, "*")); len(files) != 2 || filepath.Base(files[1]) != "usage-000001-000002.parquet" ||
		w.next != 3 {
		t.Errorf("files %v, next flush %d", files, w.next)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, ".part-*")); len(left) > 0 {
		t.Errorf("left over: %v", left)
	}
}

// Old rows go, but pods that still run stay, however long ago they came.
func TestCutoff(t *testing.T) {
	dir := t.TempDir()
	w := create(t, dir, Options{})
	old, running := pod("old", 1000), pod("running", 1000)
	old.Ended, old.End = 2000, Deleted
	w.Pod(old)
	w.Pod(running)
	w.Sample(Sample{Time: 1500, Name: "n"})
	flush(t, w)
	long := int64(4e12) // after the file was written
	fatal.If(t, w.Merge(long))
	if d := cmp.Diff([]Pod{running}, pods(t, dir)); d != "" {
		t.Error(d)
	}
	if _, err := os.Stat(filepath.Join(dir, "usage-000001.parquet")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file without any row left: %v", err)
	}
}

// A pod that ended stays gone when the row of when it ran lies in an earlier part.
func TestCutoffOverParts(t *testing.T) {
	dir := t.TempDir()
	w := create(t, dir, Options{})
	gone, running := pod("gone", 1000), pod("running", 1000)
	w.Pod(gone)
	w.Pod(running)
	flush(t, w)
	gone.Ended, gone.End = 2000, Deleted
	w.Pod(gone)
	flush(t, w)
	fatal.If(t, w.Merge(4e12))
	if d := cmp.Diff([]Pod{running}, pods(t, dir)); d != "" {
		t.Error(d)
	}
}

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
	set := Object{Kind: KindReplicaSet, Namespace: "secret-ns", Name: "secret-web", Scale: `{"owner":"SecretSet/secret-web","replicas":2}`}
	scaler := Object{Kind: KindAutoscaler, Namespace: "secret-ns", Name: "secret-web",
		Scale: `{"target":"Deployment/secret-web","metrics":["cpu 80%","secret_queue 5"]}`}
	unread := Object{Kind: KindJob, Namespace: "secret-ns", Name: "secret-job", Spec: "6", Scale: `{"owner":"secret`}
	sample := Sample{Namespace: "secret-ns", Name: "secret-web-1"}
	broken := Pod{UID: "secret", Affinity: `{"secret": nonsense`}
	key := []byte("0123456789abcdef")
	a := fatal.Value(NewAnonymiser(key))(t)
	again := p
	Anonymise(a, &p)
	Anonymise(a, &n)
	for _, o := range []*Object{&budget, &space, &class, &set, &scaler, &unread} {
		Anonymise(a, o)
	}
	Anonymise(a, &sample)
	Anonymise(a, &broken)
	all := fatal.Value(json.Marshal([]any{p, n, budget, space, class, set, scaler, unread, sample, broken}))(t)
	if i := strings.Index(strings.ToLower(string(all)), secret); i >= 0 {
		t.Errorf("a name is left: ...%s", all[max(0, i-60):min(len(all), i+60)])
	}
	var owned, scaled Scale
	fatal.If(t, errors.Join(ReadColumn(set.Scale, &owned), ReadColumn(scaler.Scale, &scaled)))
	if owned.Owner != p.Workload || set.Name != p.OwnerName || scaled.Target != "Deployment/"+set.Name || *owned.Replicas != 2 ||
		scaled.Metrics[0] != "cpu 80%" || !strings.HasSuffix(scaled.Metrics[1], " 5") || unread.Scale != "" || unread.Spec != "6" {
		t.Errorf("owners %+v, %+v, %+v of pod %+v", set, scaler, unread, p)
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
		r := fatal.Value(Open(dir))(t)
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
