package decision

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"gnnsched/internal/each"
	"gnnsched/internal/fatal"
	"gnnsched/scheduler/policy"
)

// chosen is a decision with everything in it.
func chosen(i int) Decision {
	read := &policy.Reading{Kind: policy.LinearReading, Features: []float32{0.25, -1}, Weights: []float32{2, 3}}
	return Decision{
		Number: uint64(i), Profile: "gnn", Pod: Pod{Namespace: "shop", Name: fmt.Sprint("web-", i), UID: fmt.Sprint("u", i)},
		At: time.Unix(1_700_000_000, 0), Policy: "linear", Fingerprint: 0xabc, Latency: 12500 * time.Nanosecond,
		Nodes: 5, Refused: []Refusal{{Plugin: "NodeResourcesFit", Reason: "Insufficient cpu", Nodes: 2}}, Feasible: 3, Preferred: 3,
		Best:    []Candidate{{Node: "a", Score: 0.5, Read: read, Cards: []string{"gpu.example.com/a/gpu-0"}}, {Node: "b", Score: 0.25}},
		Default: &Default{Candidate: Candidate{Node: "b", Score: 0.25}, Ties: 2, Preferred: true},
		Node:    "a", Devices: 0b101, Bound: true,
		Claimed: []ClaimedDevice{
			{Claim: "c", Request: "gpu", Driver: "gpu.example.com", Pool: "a", Name: "gpu-0", Milli: 460},
			{Request: "r", Driver: "d", Pool: "p", Name: "n"},
		},
	}
}

// A record survives being written and read.
func TestRoundTrip(t *testing.T) {
	d := chosen(1)
	lost := chosen(2)
	lost.Bound = false
	watched := chosen(3)
	watched.Bound, watched.Really = false, "b"
	if r := RecordOf(&watched); r.Outcome != Shadow {
		t.Errorf("a decision in the shadow is %q", r.Outcome)
	}
	for _, d := range []Decision{d, lost, watched, {Pod: d.Pod, At: d.At, Nodes: 2, Failure: "0/2 nodes are available",
		Really: "b"}, {Pod: d.Pod, At: d.At, Nodes: 2, Failure: "0/2 nodes are available", Nominated: "a"}} {
		want := RecordOf(&d)
		text := fatal.Value(json.Marshal(want))(t)
		got, err := ParseRecord(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("read %+v, want %+v", got, want)
		}
	}
	r := RecordOf(&d)
	if r.RunnerUp != "b" || r.Margin == nil || *r.Margin != 0.25 || r.Outcome != Bound || fmt.Sprint(r.Devices) != "[0 2]" ||
		r.Fingerprint != "0000000000000abc" {
		t.Errorf("%+v", r)
	}
}

// The book keeps the last decisions, the newest first, and finds them by pod.
func TestBook(t *testing.T) {
	b := NewBook(3, nil)
	if got := b.Last(Query{}); len(got) != 0 {
		t.Errorf("an empty book has %d records", len(got))
	}
	for i := range 7 {
		b.Decided(chosen(i))
		names := each.Map(b.Last(Query{}), func(r Record) string { return r.Pod })
		var want []string
		for k := i; k >= 0 && k > i-3; k-- {
			want = append(want, fmt.Sprint("web-", k))
		}
		if !reflect.DeepEqual(names, want) {
			t.Errorf("after %d: %v, want %v", i, names, want)
		}
	}
	if held, total := b.Held(); held != 3 || total != 7 {
		t.Errorf("%d held of %d", held, total)
	}
	for q, want := range map[Query]int{
		{Namespace: "shop", Pod: "web-5"}: 1, {Namespace: "other", Pod: "web-5"}: 0, {Namespace: "shop", Pod: "web-0"}: 0,
		{Limit: 2}: 2, {UID: "u6"}: 1, {Namespace: "shop"}: 3,
	} {
		if got := b.Last(q); len(got) != want {
			t.Errorf("%+v: %d records, want %d", q, len(got), want)
		}
	}
}

// However often pods without a node are tried again, the last placements stay, also in what After returns.
func TestFailuresPushNoPlacementOut(t *testing.T) {
	b := NewBook(3, nil)
	b.Decided(chosen(0))
	b.Decided(chosen(1))
	for i := range 100 {
		d := chosen(2 + i)
		d.Node = ""
		b.Decided(d)
	}
	b.Decided(chosen(102))
	names := func(records []Record) []string { return each.Map(records, func(r Record) string { return r.Pod }) }
	if got, want := names(b.Last(Query{})), []string{"web-102", "web-101", "web-100", "web-99", "web-1", "web-0"}; !reflect.DeepEqual(got, want) {
		t.Errorf("Last: %v, want %v", got, want)
	}
	if got, want := names(b.Last(Query{Limit: 4})), []string{"web-102", "web-101", "web-100", "web-1"}; !reflect.DeepEqual(got, want) {
		t.Errorf("the last four: %v, want %v", got, want)
	}
	if got, want := names(b.Last(Query{Limit: 1, Pod: "web-101"})), []string{"web-101"}; !reflect.DeepEqual(got, want) {
		t.Errorf("the last of a pod that waits: %v, want %v", got, want)
	}
	got, total := b.After(0, 4)
	if want := []string{"web-102", "web-101", "web-100", "web-1"}; !reflect.DeepEqual(names(got), want) || total != 103 {
		t.Errorf("After: %v of %d, want %v", names(got), total, want)
	}
	if got, _ := b.After(101, 4); !reflect.DeepEqual(names(got), []string{"web-102", "web-101"}) {
		t.Errorf("After 101: %v", names(got))
	}
}

// After returns the records since a number of decisions, as far as the book still has them.
func TestAfter(t *testing.T) {
	b := NewBook(4, nil)
	if got, total := b.After(0, 10); len(got) != 0 || total != 0 {
		t.Errorf("an empty book: %d of %d", len(got), total)
	}
	for i := range 7 {
		b.Decided(chosen(i))
	}
	for _, c := range []struct {
		n     uint64
		limit int
		want  []string
	}{
		{5, 10, []string{"web-6", "web-5"}}, {7, 10, nil}, {9, 10, nil}, {0, 10, []string{"web-6", "web-5", "web-4", "web-3"}},
		{3, 2, []string{"web-6", "web-5"}}, {3, 0, nil},
	} {
		got, total := b.After(c.n, c.limit)
		names := each.Map(got, func(r Record) string { return r.Pod })
		if total != 7 || !reflect.DeepEqual(names, c.want) {
			t.Errorf("after %d, at most %d: %v of %d, want %v of 7", c.n, c.limit, names, total, c.want)
		}
	}
}

// Texts of any length and content leave a bounded record of one line without control characters.
func TestHostileTexts(t *testing.T) {
	evil := strings.Repeat("\x1b[31m<script>\n\u202e\xff", 500)
	d := chosen(1)
	d.Pod = Pod{Namespace: evil, Name: evil, UID: evil}
	d.Failure, d.Profile, d.Policy, d.Node, d.Nominated = evil, evil, evil, evil, evil
	d.Refused = nil
	for i := range 1000 {
		d.Refused = append(d.Refused, Refusal{Plugin: evil, Reason: fmt.Sprint(i, evil), Nodes: 1})
		d.Claimed = append(d.Claimed, ClaimedDevice{Claim: evil, Request: evil, Driver: evil, Pool: evil, Name: evil})
		d.Best[0].Cards = append(d.Best[0].Cards, evil)
	}
	b := NewBook(1, nil)
	b.Decided(d)
	r := b.Last(Query{})[0]
	text := fatal.Value(json.Marshal(r))(t)
	if len(text) > 200_000 || bytes.ContainsAny(text, "\n\x1b") || strings.Contains(string(text), "\u202e") {
		t.Errorf("%d bytes: %.300q", len(text), text)
	}
	refused := each.Sum(r.Refused, func(f Refusal) int { return f.Nodes })
	if len(r.Refused) != maxReasons || refused != 1000 {
		t.Errorf("%d reasons for %d nodes", len(r.Refused), refused)
	}
	if len(r.Claimed) != maxClaimed || len(r.Best[0].Cards) != maxClaimed {
		t.Errorf("%d devices of claims, %d cards", len(r.Claimed), len(r.Best[0].Cards))
	}
	if len(d.Refused) != 1000 || len(d.Refused[0].Reason) < 5000 || len(d.Claimed[9].Claim) < 5000 || len(d.Best[0].Cards[9]) < 5000 {
		t.Error("another listener's decision was changed")
	}
}

func TestServe(t *testing.T) {
	b := NewBook(200, nil)
	for i := range 150 {
		b.Decided(chosen(i))
	}
	for _, c := range []struct {
		method, query  string
		status, length int
	}{
		{"GET", "", 200, 100}, {"GET", "?limit=3", 200, 3}, {"GET", "?limit=1000", 200, 150}, {"GET", "?pod=shop/web-7", 200, 1},
		{"GET", "?pod=shop/none", 200, 0}, {"GET", "?uid=u9", 200, 1}, {"GET", "?pod=web-7", 400, 0}, {"GET", "?limit=0", 400, 0},
		{"GET", "?limit=x", 400, 0}, {"GET", "?pods=x", 400, 0}, {"POST", "", 405, 0}, {"DELETE", "", 405, 0},
	} {
		w := httptest.NewRecorder()
		b.ServeHTTP(w, httptest.NewRequest(c.method, DebugPath+c.query, nil))
		if w.Code != c.status {
			t.Errorf("%s %s: status %d: %s", c.method, c.query, w.Code, w.Body)
		}
		if w.Code != http.StatusOK {
			continue
		}
		var got page
		fatal.If(t, json.Unmarshal(w.Body.Bytes(), &got))
		if len(got.Records) != c.length || got.Held != 150 || got.Total != 150 {
			t.Errorf("%s: %d records, %d held of %d", c.query, len(got.Records), got.Held, got.Total)
		}
	}
}

// faulty is a file on a disk that can become full. A full disk takes half of each write.
type faulty struct {
	*os.File
	full bool
}

func (f *faulty) Write(b []byte) (int, error) {
	if f.full {
		n, _ := f.File.Write(b[:len(b)/2])
		return n, errors.New("no space left on device")
	}
	return f.File.Write(b)
}

func (f *faulty) Close() error { return nil }

// A full disk is reported once, and so is its recovery. The memory has all records, and the file has whole lines.
func TestFullDisk(t *testing.T) {
	path := filepath.Join(t.TempDir(), "decisions.jsonl")
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	fatal.If(t, err)
	defer f.Close()
	disk := &faulty{File: f}
	var said []string
	failed := func(err error, lost uint64) { said = append(said, fmt.Sprint(err, " ", lost)) }
	j := &Journal{path: path, file: disk, failed: failed}
	b := NewBook(10, j)
	for i, full := range []bool{false, true, true, true, false, false} {
		disk.full = full
		b.Decided(chosen(i))
	}
	if want := []string{"write a decision: no space left on device 1", "<nil> 3"}; !reflect.DeepEqual(said, want) {
		t.Errorf("said %q, want %q", said, want)
	}
	if held, _ := b.Held(); held != 6 {
		t.Errorf("%d are in memory", held)
	}
	text := fatal.Value(os.ReadFile(path))(t)
	var read []string
	for line := range strings.Lines(string(text)) {
		r, err := ParseRecord([]byte(line))
		if err != nil {
			t.Errorf("%q: %v", line, err)
		}
		read = append(read, r.Pod)
	}
	if want := []string{"web-0", "web-4", "web-5"}; !reflect.DeepEqual(read, want) {
		t.Errorf("read %v, want %v", read, want)
	}
}

// A file continues after its last whole record. A partial record is cut off; other text stays, and so does a record that lacks only the
// line feed.
func TestJournalAfterAKill(t *testing.T) {
	d := chosen(0)
	record, err := json.Marshal(RecordOf(&d))
	fatal.If(t, err)
	whole := string(record)
	for name, c := range map[string]struct{ before, kept string }{
		"new":            {"", ""},
		"whole":          {whole + "\n", whole + "\n"},
		"torn":           {whole + "\n" + whole[:len(whole)/2], whole + "\n"},
		"torn early":     {whole + "\n" + whole[:3], whole + "\n"},
		"only a part":    {whole[:20], ""},
		"no line feed":   {whole, whole + "\n"},
		"another file":   {"a: 1\nb: 2", "a: 1\nb: 2\n"},
		"another object": {`{"apiVersion":"v1"}`, `{"apiVersion":"v1"}` + "\n"},
		"a long line":    {whole[:20] + strings.Repeat("x", maxLine), whole[:20] + strings.Repeat("x", maxLine) + "\n"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "decisions.jsonl")
			fatal.If(t, os.WriteFile(path, []byte(c.before), 0o600))
			cut := uint64(0)
			j, err := OpenJournal(path, func(err error, lost uint64) {
				if cut += lost; err != nil {
					t.Error(err)
				}
			})
			fatal.If(t, err)
			NewBook(1, j).Decided(chosen(1))
			fatal.If(t, j.Close())
			text := fatal.Value(os.ReadFile(path))(t)
			added, is := strings.CutPrefix(string(text), c.kept)
			if r, err := ParseRecord([]byte(added)); !is || err != nil || r.Pod != "web-1" || (cut == 1) != (len(c.kept) < len(c.before)) {
				t.Errorf("%d cut off, %.300q: %v", cut, text, err)
			}
		})
	}
	if _, err := OpenJournal(t.TempDir(), nil); err == nil {
		t.Error("a folder is no file")
	}
}

func TestParseRefuses(t *testing.T) {
	for text, want := range map[string]string{
		`{`:                              "unexpected end",
		`{}`:                             "no schema",
		`{"schema":2}`:                   "schema 2",
		`{"schema":1,"outcome":"maybe"}`: "not known",
		`{"schema":1,"outcome":"bound"}`: "does not go with",
		`{"schema":1,"outcome":"shadow","node":"a"}`:                                                     "really on",
		`{"schema":1,"outcome":"bound","node":"a","really":"b"}`:                                         "really on",
		`{"schema":1,"outcome":"unschedulable","best":[{"read":{"features":"AAA="}}]}`:                   "no vector",
		`{"schema":1,"outcome":"unschedulable","best":[{"read":{"features":"AADAfw=="}}]}`:               "not finite",
		`{"schema":1,"outcome":"unschedulable","best":[{},{},{},{},{},{}]}`:                              "too long",
		`{"schema":1,"outcome":"unschedulable","claimed":[` + strings.Repeat("{},", maxClaimed) + `{}]}`: "too long",
		`{"schema":1,"outcome":"unschedulable","pod":"` + strings.Repeat("a", 2<<20) + `"}`:              "more than",
	} {
		if _, err := ParseRecord([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80s: %v, want an error with %q", text, err, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, d := range []Decision{chosen(1), {Failure: "0/2 nodes"}} {
		text := fatal.Value(json.Marshal(RecordOf(&d)))(f)
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := ParseRecord(text)
		if err != nil {
			return
		}
		again := fatal.Value(json.Marshal(r))(t)
		if _, err := ParseRecord(again); err != nil {
			t.Errorf("%s: %v", again, err)
		}
		for _, c := range r.Best {
			if c.Read == nil {
				continue
			}
			for _, x := range c.Read.Features {
				if math.IsNaN(float64(x)) || math.IsInf(float64(x), 0) {
					t.Errorf("%v is not finite", x)
				}
			}
		}
	})
}
