package record

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"
	"pgregory.net/rapid"

	"gnnsched/internal/fatal"
)

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
