package record

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

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
	w, err := Create(dir, o)
	fatal.If(t, err)
	t.Cleanup(func() { w.lock.Close() })
	return w
}

func flush(t testing.TB, w *Writer) Flushed {
	t.Helper()
	f, err := w.Flush()
	fatal.If(t, err)
	return f
}

func pods(t testing.TB, dir string) []Pod {
	t.Helper()
	r, err := Open(dir)
	fatal.If(t, err)
	out, err := r.Pods()
	fatal.If(t, err)
	return out
}

// Every table is read back equal, with the last row of each key.
func TestRoundTrip(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "r")
	w := create(t, dir, Options{})
	a, b := pod("a", 1000), pod("b", 2000)
	n := Node{Name: "n", From: 5, MilliCPU: 4000, Memory: 1 << 33, Pods: 110, Taints: `[{"key":"k","effect":"NoSchedule"}]`}
	o := Object{Kind: KindNamespace, Name: "shop", From: 5, Spec: `{"a":"b"}`}
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

	r, err := Open(dir)
	fatal.If(t, err)
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
	if _, err := w.Close(); err != nil {
		t.Fatal(err)
	}
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
	whole, err := os.ReadFile(path)
	fatal.If(t, err)
	for cut := 0; cut < len(whole); cut += 97 {
		fatal.If(t, os.WriteFile(path, whole[:cut], 0o600))
		r, err := Open(dir)
		fatal.If(t, err)
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
