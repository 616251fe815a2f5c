package record

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/parquet-go/parquet-go"

	"gnnsched/internal/cluster"
	"gnnsched/scheduler/decision"
	"gnnsched/scheduler/policy"
)

// hand is a clock that a test sets forward.
type hand struct {
	at   time.Time
	due  time.Time
	call func() // nil: no timer runs
}

func (h *hand) after(d time.Duration, f func()) func() bool {
	h.due, h.call = h.at.Add(d), f
	return func() bool { h.call = nil; return true }
}

func (h *hand) step(d time.Duration) {
	if h.at = h.at.Add(d); h.call != nil && !h.at.Before(h.due) {
		h.call()
	}
}

// withHand opens a table whose clock a test sets forward.
func withHand(t *testing.T, path string, failed func(error, uint64)) (*table, *hand) {
	t.Helper()
	h := &hand{at: time.Unix(1e9, 0)}
	j, err := openTable(path, failed)
	if err != nil {
		t.Fatal(err)
	}
	j.now, j.after = func() time.Time { return h.at }, h.after
	return j, h
}

// tableOf opens a table that may not fail.
func tableOf(t *testing.T, path string) (*table, *hand) {
	t.Helper()
	return withHand(t, path, func(err error, lost uint64) { t.Errorf("%d decisions lost: %v", lost, err) })
}

// podsIn returns the pods' names in a file, and whether it is cut off.
func podsIn(t *testing.T, path string) (names []string, cut bool) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	cut, err = readTable(f, func(r Record) { names = append(names, r.Pod) })
	if err != nil {
		t.Fatal(err)
	}
	return names, cut
}

func closed(t *testing.T, j Journal) {
	t.Helper()
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
}

// some are decisions of every kind.
func some() []decision.Decision {
	full := chosen(1)
	full.Devices, full.Group, full.Fallback, full.Bound = cluster.DeviceSet(5), "canary", "deadline", true
	full.Claimed = []decision.ClaimedDevice{{Claim: "gpu", Request: "one", Driver: "gpu.example.com", Pool: "node", Name: "gpu-0", Milli: 500}}
	full.Refused = []decision.Refusal{{Plugin: "NodeResourcesFit", Reason: "Insufficient cpu", Nodes: 3}}
	full.Best = []decision.Candidate{
		{Node: full.Node, Score: 0.5, Read: &policy.Reading{Kind: policy.ValueReading, Features: []float32{1, 2.5}}}, {Node: "b", Score: -1},
	}
	full.Default = &decision.Default{Candidate: decision.Candidate{Node: "b", Score: -1}, Ties: 2, Preferred: true}
	failed := decision.Decision{
		Profile: "gnn", Pod: decision.Pod{Namespace: "shop", Name: "huge", UID: "u"}, At: time.Unix(5, 123456789), Nodes: 7, Failure: "0/7 nodes",
		Nominated: "c",
	}
	watched := chosen(2)
	watched.Really = "b"
	return []decision.Decision{chosen(0), full, failed, watched}
}

// Parquet holds the same records as JSON lines.
func TestTableHasWhatLinesHave(t *testing.T) {
	path := filepath.Join(t.TempDir(), "d.parquet")
	j, _ := tableOf(t, path)
	b := NewBook(10, j)
	var want []Record
	for _, d := range some() {
		b.Decided(d)
		text, err := json.Marshal(Of(&d))
		if err != nil {
			t.Fatal(err)
		}
		r, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, r)
	}
	closed(t, j)
	for i := range reflect.TypeFor[Record]().NumField() {
		if !slices.ContainsFunc(want, func(r Record) bool { return !reflect.ValueOf(r).Field(i).IsZero() }) {
			t.Errorf("no decision of the test has a %s", reflect.TypeFor[Record]().Field(i).Name)
		}
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var got []Record
	if cut, err := readTable(f, func(r Record) { got = append(got, r) }); err != nil || cut || !isTable(f) {
		t.Fatalf("cut %v, %v", cut, err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if info, err := f.Stat(); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

// Groups are written by number and by age, and after each the file is complete: another process can read it, with any reader.
func TestTableGroups(t *testing.T) {
	path := filepath.Join(t.TempDir(), "d.parquet")
	j, c := tableOf(t, path)
	b := NewBook(10, j)
	for i := range groupRows - 1 {
		b.Decided(chosen(i))
	}
	if info, err := os.Stat(path); err != nil || info.Size() != 0 {
		t.Errorf("%v, %v: written before the group is full", info, err)
	}
	b.Decided(chosen(groupRows - 1))
	b.Decided(chosen(groupRows))
	if names, cut := podsIn(t, path); len(names) != groupRows || cut {
		t.Errorf("%d rows, cut %v", len(names), cut)
	}
	c.step(groupAge)
	names, cut := podsIn(t, path)
	if len(names) != groupRows+1 || cut || names[groupRows] != fmt.Sprint("web-", groupRows) {
		t.Errorf("%d rows, cut %v", len(names), cut)
	}
	rows, err := parquet.ReadFile[struct {
		Pod  string    `parquet:"pod"`
		Time time.Time `parquet:"time,timestamp(nanosecond)"`
	}](path)
	if err != nil || len(rows) != groupRows+1 || rows[5].Pod != "web-5" || !rows[5].Time.Equal(chosen(5).At) {
		t.Errorf("%d rows, %v", len(rows), err)
	}
	closed(t, j)
}

// A file that is cut off anywhere has the rows of its whole groups, and the next process goes on behind them.
func TestTableCutOff(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "d.parquet")
	var ends []int64
	for i := range 4 {
		j, _ := tableOf(t, path)
		NewBook(1, j).Decided(chosen(i))
		closed(t, j)
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		ends = append(ends, info.Size())
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var cuts []int64
	for _, e := range ends {
		cuts = append(cuts, e-5, e-1, e, e+1, e+4, e+100)
	}
	for _, size := range cuts {
		if size > int64(len(text)) {
			continue
		}
		whole := 0
		for _, e := range ends {
			if e <= size {
				whole++
			}
		}
		short := filepath.Join(dir, fmt.Sprint(size, ".parquet"))
		if err := os.WriteFile(short, text[:size], 0o600); err != nil {
			t.Fatal(err)
		}
		names, cut := podsIn(t, short)
		if len(names) != whole || cut != !slices.Contains(ends, size) {
			t.Errorf("cut at %d of %v: %v, cut %v", size, ends, names, cut)
		}
		j, _ := tableOf(t, short)
		NewBook(1, j).Decided(chosen(9))
		closed(t, j)
		if names, cut := podsIn(t, short); cut || len(names) != whole+1 || names[whole] != "web-9" {
			t.Errorf("after a cut at %d: %v, cut %v", size, names, cut)
		}
	}
}

// A full file is renamed, and the oldest are deleted; others in the folder stay.
func TestTableRotates(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "d[1].parquet")
	other := filepath.Join(dir, "d[1]-notes.parquet")
	if err := os.WriteFile(other, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	j, c := tableOf(t, path)
	j.limit = 1
	b := NewBook(1, j)
	for i := range maxBackups + 3 {
		b.Decided(chosen(i))
		c.step(groupAge)
	}
	closed(t, j)
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != maxBackups+2 {
		t.Fatalf("%v, %v", files, err)
	}
	var all []string
	for _, f := range files {
		if f.Name() == filepath.Base(other) {
			continue
		}
		names, cut := podsIn(t, filepath.Join(dir, f.Name()))
		if cut || len(names) != 1 {
			t.Errorf("%s: %v", f.Name(), names)
		}
		all = append(all, names...)
	}
	slices.Sort(all)
	if want := []string{"web-2", "web-3", "web-4", "web-5", "web-6"}; !slices.Equal(all, want) {
		t.Errorf("%v, want %v", all, want)
	}
}

// A file of a release with other columns stays unchanged, and a new one begins.
func TestTableOfAnotherRelease(t *testing.T) {
	type older struct {
		Time    int64  `parquet:"time,timestamp(nanosecond)"`
		Profile string `parquet:"profile,dict"`
		Number  uint64 `parquet:"number"`
		Pod     string `parquet:"pod"`
		Outcome string `parquet:"outcome,dict"`
		Node    string `parquet:"node,optional,dict"`
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "d.parquet")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	w := parquet.NewGenericWriter[older](f, parquet.KeyValueMetadata(versionKey, strconv.Itoa(schemaVersion)))
	if _, err := w.Write([]older{{Profile: "gnn", Pod: "before", Outcome: Bound, Node: "a"}}); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Close(), f.Close()); err != nil {
		t.Fatal(err)
	}
	j, c := tableOf(t, path)
	b := NewBook(1, j)
	for i := range 2 {
		b.Decided(chosen(i))
		c.step(groupAge)
	}
	closed(t, j)
	files, err := filepath.Glob(filepath.Join(dir, "d*.parquet"))
	if err != nil || len(files) != 2 {
		t.Fatalf("%v, %v", files, err)
	}
	var got []string
	for _, file := range files {
		names, cut := podsIn(t, file)
		if cut {
			t.Errorf("%s is cut off", file)
		}
		got = append(got, names...)
	}
	if want := []string{"before", "web-0", "web-1"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// A failing file is reported once, and so is its recovery.
func TestTableThatFails(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "d")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	var said []string
	j, c := withHand(t, filepath.Join(dir, "d.parquet"),
		func(err error, lost uint64) { said = append(said, fmt.Sprint(err == nil, " ", lost)) })
	b := NewBook(1, j)
	if err := j.file.Close(); err != nil { // as if the disk were gone
		t.Fatal(err)
	}
	for range 2 {
		b.Decided(chosen(1))
		c.step(groupAge)
	}
	j.file = nil // opened again
	b.Decided(chosen(2))
	c.step(groupAge)
	if want := []string{"false 1", "true 2"}; !slices.Equal(said, want) {
		t.Errorf("%q, want %q", said, want)
	}
	closed(t, j)
	if names, cut := podsIn(t, filepath.Join(dir, "d.parquet")); cut || !slices.Equal(names, []string{"web-2"}) {
		t.Errorf("%v, cut %v", names, cut)
	}
	d := chosen(1)
	d.Best = []decision.Candidate{{Node: "a", Score: float32(math.NaN())}}
	said = nil
	b.Decided(d)
	if want := []string{"false 1"}; !slices.Equal(said, want) {
		t.Errorf("%q, want %q", said, want)
	}
}

// Files without decisions are refused and stay unchanged.
func TestTableRefuses(t *testing.T) {
	dir := t.TempDir()
	var other bytes.Buffer
	w := parquet.NewGenericWriter[struct{ A int }](&other)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"text": "hello", "other": other.String()} {
		path := filepath.Join(dir, name+".parquet")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := OpenJournal(path, nil); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", name, err)
		}
		if after, err := os.ReadFile(path); err != nil || string(after) != text {
			t.Errorf("%s was changed: %v", name, err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "folder.parquet"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenJournal(filepath.Join(dir, "folder.parquet"), nil); err == nil {
		t.Error("a folder is no file")
	}
}

// No file makes the reader panic, or allocate more than checkGroups lets a file of its size unpack to.
func FuzzReadTable(f *testing.F) {
	path := filepath.Join(f.TempDir(), "d.parquet")
	j, err := OpenJournal(path, func(error, uint64) {})
	if err != nil {
		f.Fatal(err)
	}
	b := NewBook(1, j)
	for _, d := range some() {
		b.Decided(d)
	}
	if err := j.Close(); err != nil {
		f.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add(text[:len(text)-9])
	f.Add([]byte("PAR1PAR1"))
	f.Fuzz(func(t *testing.T, text []byte) {
		path := filepath.Join(t.TempDir(), "d.parquet")
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		file, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, _ = readTable(file, func(r Record) {
			if r.Outcome == "" || strings.ContainsAny(r.Pod, "\x1b\n") {
				t.Errorf("%+v", r)
			}
		})
		runtime.ReadMemStats(&after)
		if most := uint64(64<<20 + 20_000*len(text)); after.TotalAlloc-before.TotalAlloc > most {
			t.Errorf("a file of %d bytes takes %d bytes, and %d are the most", len(text), after.TotalAlloc-before.TotalAlloc, most)
		}
	})
}

// Footers, each of which lists all groups, stay small: they do not repeat long values.
func TestTableFooters(t *testing.T) {
	path := filepath.Join(t.TempDir(), "d.parquet")
	j, h := tableOf(t, path)
	b := NewBook(10, j)
	d := some()[1]
	for i := range 200 { // some 20 kB of JSON
		d.Best = append(d.Best, decision.Candidate{Node: fmt.Sprintf("node-%d", i), Score: float32(i), Read: d.Best[0].Read})
	}
	const groups = 100
	for range groups {
		b.Decided(d)
		h.step(groupAge)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if each := info.Size() / (groups * groups / 2); each > 2300 {
		t.Errorf("%d groups of a decision take %d bytes, %d for each group that a footer lists", groups, info.Size(), each)
	} else {
		t.Logf("%d bytes, %d for each group that a footer lists", info.Size(), each)
	}
	closed(t, j)
}
