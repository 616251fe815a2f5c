package compare

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gnnsched/internal/exit"
	"gnnsched/workload/record"
)

// large writes a record of an hour of many nodes with long names, on which pods of many sizes come and go.
func large(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "large.record")
	w, err := record.Create(dir, record.Options{})
	if err != nil {
		t.Fatal(err)
	}
	const nodes, pods = 600, 500
	name := func(i int) string {
		return fmt.Sprintf("gke-production-europe-west4-pool-%d-%08x", i%7, uint32(i)*2654435761)
	}
	for i := range nodes {
		w.Node(record.Node{
			Name: name(i), From: t0, MilliCPU: 8000, Memory: 32 << 30, Pods: 110, Labels: `{"kubernetes.io/hostname":"` + name(i) + `"}`,
		})
	}
	for i := range int64(pods) {
		at := t0 + i*7000
		w.Pod(record.Pod{UID: fmt.Sprint(i), Namespace: "shop-" + fmt.Sprint(i%9), Name: fmt.Sprintf("checkout-with-a-long-name-%d", i),
			MilliCPU: 250 * (1 + i%20), Memory: (1 + i%20) << 30,
			Arrived: at, Bound: at + 500 + i%5000, Ended: at + 900_000, End: record.Deleted, Node: name(int(i*7) % nodes)})
	}
	w.Run(record.Run{ID: "1", Source: "live", From: t0, To: t0 + 3_600_000})
	if _, err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

// The page of a record of many nodes and pods has every part, in at most 3 MB.
func TestPage(t *testing.T) {
	out := filepath.Join(t.TempDir(), "page.html")
	if code, _, errs := execute(t, "--profile", "most-allocated", "--seeds", "2", "--html", out, large(t)); code != exit.OK {
		t.Fatalf("code %d: %s", code, errs)
	}
	page, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(page); n > 3_000_000 || n < 200_000 {
		t.Errorf("%d bytes", n)
	}
	for _, part := range []string{
		"compare on large.record", "a record of 2023-11-14T22:13:20Z to", "Against default-scheduler", "Every metric", "The cluster over time",
		"Waiting by class", "Pods that waited more than 1 second, by class",
		"under 4 CPU", "Decisions", "shop-0/checkout-with-a-long-name-0", "CPU of each node over time with really: at the end 600 nodes",
		"Do it again",
	} {
		if !strings.Contains(string(page), part) {
			t.Errorf("the page lacks %q", part)
		}
	}
}
