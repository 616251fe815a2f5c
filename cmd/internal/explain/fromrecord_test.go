package explain

import (
	"path/filepath"
	"strings"
	"testing"

	"gnnsched/workload/record"
)

// A pod of a recorded cluster is explained whichever scheduler placed it. The profile and the pod must be such that there is something
// to explain.
func TestRecord(t *testing.T) {
	const t0 = 1_700_000_000_000
	dir := filepath.Join(t.TempDir(), "r")
	w, err := record.Create(dir, record.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []string{"a", "b"} {
		w.Node(record.Node{Name: n, From: t0, MilliCPU: 4000, Memory: 8 << 30, Pods: 10})
	}
	one := record.Pod{
		UID: "0", Namespace: "shop", Name: "db-0", MilliCPU: 1000, Memory: 1 << 30, Arrived: t0 + 1000, Bound: t0 + 2000, Node: "b",
		Scheduler: "default-scheduler",
	}
	two := one
	two.UID, two.Name, two.Arrived, two.Bound, two.Node, two.Claims = "1", "web-0", t0+3000, t0+4000, "b", `["data"]`
	big := one
	big.UID, big.Name, big.MilliCPU, big.Bound, big.Node = "2", "big", 9000, 0, ""
	for _, p := range []record.Pod{one, two, big} {
		w.Pod(p)
	}
	w.Run(record.Run{ID: "1", From: t0, To: t0 + 60_000})
	if _, err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for want, args := range map[string][]string{
		"The pod would go to a, and is really on b.\nNetwork gnn":        {"pod/web-0"},
		"note: the record does not say where the pod's volumes are":      {"pod/web-0"},
		"2023-11-14 22:13:24 UTC, scheduler linear in the shadow":        {"--profile", "linear", "pod/web-0"},
		"The pod really got no node either.\nIt would find no node: 0/2": {"pod/big"},
	} {
		if out, err := call(append([]string{"--record", dir, "-n", "shop"}, args...)...); err != nil || !strings.Contains(out, want) {
			t.Errorf("%q: %v\n%s", args, err, out)
		}
	}
	for want, args := range map[string][]string{
		"has no pod shop/none":                {"--record", dir, "-n", "shop", "pod/none"},
		"has no network or policy":            {"--record", dir, "-n", "shop", "-p", "default", "pod/web-0"},
		"--trace has no effect with --record": {"--record", dir, "--trace", "x", "pod/web-0"},
		"--profile has no effect without":     {"--profile", "linear", "pod/web-0"},
		"read the record":                     {"--record", filepath.Join(dir, "none"), "pod/web-0"},
	} {
		if _, err := call(args...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", args, err, want)
		}
	}
}
