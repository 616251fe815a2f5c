package record

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"gnnsched/internal/fatal"
)

// However rows are divided into flushes, and whenever files are merged, a reader sees the last row of each pod, and all samples.
func TestMergeKeepsTheRecord(t *testing.T) {
	sizes := mergeSizes
	mergeSizes = []int{3, 6}
	defer func() { mergeSizes = sizes }()
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp("", "record")
		fatal.If(t, err)
		defer os.RemoveAll(dir)
		w, err := Create(dir, Options{})
		fatal.If(t, err)
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
			if _, err := w.Flush(); err != nil {
				t.Fatal(err)
			}
			if rapid.Bool().Draw(t, "merge") {
				fatal.If(t, w.Merge(0))
			}
		}
		fatal.If(t, w.Merge(0))
		r, err := Open(dir)
		fatal.If(t, err)
		all, err := r.Pods()
		fatal.If(t, err)
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
	keep, err := os.ReadFile(filepath.Join(dir, "usage-000001.parquet"))
	fatal.If(t, err)
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
	if _, err := w.Close(); err != nil {
		t.Fatal(err)
	}
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
