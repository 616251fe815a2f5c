package main

import (
	"encoding/json"
	"strings"
	"testing"
	"unsafe"

	"gnnsched/scheduler/sim/vector"
)

// ask returns the answer to a request.
func ask(t testing.TB, text string) map[string]any {
	t.Helper()
	out := map[string]any{}
	if err := json.Unmarshal([]byte(call(text)), &out); err != nil && call(text) != "null" {
		t.Fatalf("%s: %v", text, err)
	}
	return out
}

// memory is a caller's arrays, with a guard behind each.
type memory struct {
	arguments
	guards []func() bool
}

// guard is an element that no call may write to.
const guard = 77

// array returns room for n elements.
func array[T uint8 | int64 | uint64 | float32 | float64](m *memory, n int64) *T {
	s := make([]T, n+1)
	s[n] = guard
	m.guards = append(m.guards, func() bool { return s[n] == guard })
	return &s[0]
}

// room returns a caller's arrays for n environments with room for as many rows of each kind, and features of the set base.
func room(n, slots, rows int64) *memory {
	m := &memory{}
	a := &m.arguments
	a.size, a.slots = int64(unsafe.Sizeof(*a)), slots
	a.roomCandidates, a.roomNodes, a.roomGroups = rows, rows, rows
	candidates := rows
	if slots > 0 {
		candidates = n * slots
	}
	a.actions, a.seeds, a.resetMask = array[int64](m, n), array[uint64](m, n), array[uint8](m, n)
	a.reward, a.terminated, a.objective = array[float64](m, n), array[uint8](m, n), array[float64](m, n)
	a.unscheduled, a.waited, a.decisions, a.seed = array[int64](m, n), array[int64](m, n), array[int64](m, n), array[uint64](m, n)
	a.podX, a.clusterX, a.candidateOffsets = array[float32](m, 6*n), array[float32](m, 5*n), array[int64](m, n+1)
	a.candidateX, a.candidateNode, a.mask = array[float32](m, 15*candidates), array[int64](m, candidates), array[uint8](m, candidates)
	a.nodeOffsets, a.zoneOffset = array[int64](m, n+1), array[int64](m, n+1)
	a.nodeX, a.nodeZone = array[float32](m, 9*rows), array[int64](m, rows)
	a.groupX, a.groupWeight, a.groupNode = array[float32](m, 6*rows), array[float32](m, rows), array[int64](m, rows)
	a.nodeRaw, a.podRaw = array[int64](m, vector.RawNode*rows), array[int64](m, vector.RawPod*n)
	for i := range n {
		unsafe.Slice(a.seeds, n)[i], unsafe.Slice(a.resetMask, n)[i] = uint64(i), 1
	}
	return m
}

const tiny = `{"op": "open", "scenario": "tiny", "count": 2, "features": ["base"]}`

func TestLibrary(t *testing.T) {
	o := ask(t, tiny)
	h := int64(o["handle"].(float64))
	m := room(2, 0, 999)
	for _, c := range []struct {
		what, want int32
		message    string
	}{
		{step, failed, "call reset first"}, {resetOn, failed, "needs a seed"}, {resetTraining, ok, ""}, {step, ok, ""}, {observe, ok, ""},
		{resetEvaluation, ok, ""}, {resetOn, ok, ""}, {99, failed, "no operation 99"},
	} {
		for i := range 2 { // the first allowed candidates
			a := int64(0)
			for m.candidates > 0 && unsafe.Slice(m.mask, m.candidates)[unsafe.Slice(m.candidateOffsets, 3)[i]+a] == 0 {
				a++
			}
			unsafe.Slice(m.actions, 2)[i] = a
		}
		if got := play(h, c.what, &m.arguments); got != c.want || c.want != ok && !strings.Contains(string(m.message[:]), c.message) {
			t.Fatalf("%d: %d, %s", c.what, got, m.message)
		}
	}
	if small := room(2, 0, 1); play(h, observe, &small.arguments) != grow || small.nodes < 2 {
		t.Errorf("%+v", small.arguments)
	}
	for text, want := range map[string]string{
		"": "request", "{": "request", `{"op": "fly"}`: "no operation", `{"oops": 1}`: "oops", `{"op": "outcome", "handle": 99}`: "closed",
		`{"op": "open", "scenario": "nowhere"}`: "nowhere", `{"op": "open", "scenario": "tiny"}`: "0 environments",
		`{"op": "checkpoint", "architecture": {"encoder": "x"}}`: "encoder", `{"op": "open", "scenario": "all", "count": 1}`: "want one",
	} {
		if got, is := ask(t, text)["error"].(string); !is || !strings.Contains(got, want) {
			t.Errorf("%s: %q", text, got)
		}
	}
	handle := string(must(json.Marshal(h)))
	for scores, want := range map[string]string{"[[1]]": "want scores for each of 2", "[[1, 2], []]": "environment 0: 2 scores for"} {
		if got, is := ask(t, `{"op": "choose", "handle": `+handle+`, "scores": `+scores+"}")["error"].(string); !is || !strings.Contains(got, want) {
			t.Errorf("%s: %q", scores, got)
		}
	}
	if ask(t, strings.Replace(tiny, "open", "close", 1))["closed"] != true {
		t.Error("handle 0 is open")
	}
	closing := `{"op": "close", "handle": ` + handle + `}`
	if call(closing) != "null" || play(h, observe, &m.arguments) != closed {
		t.Error("it is still open")
	}
}

func must(b []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return b
}

// FuzzPlay calls play with arrays that are missing, too small or of a wrong size. It must not panic, and must not write behind an array.
func FuzzPlay(f *testing.F) {
	var h int64
	f.Add(int32(step), uint64(0), int64(0), int64(40), int64(0), int64(0), uint64(1))
	f.Add(int32(resetTraining), uint64(1<<20), int64(5), int64(3), int64(8), int64(2), uint64(1<<40))
	f.Add(int32(resetEvaluation), uint64(7), int64(0), int64(-1), int64(0), int64(0), uint64(9))
	f.Fuzz(func(t *testing.T, what int32, missing uint64, slots, rows, size, action int64, seed uint64) {
		if h == 0 {
			h = int64(ask(t, tiny)["handle"].(float64))
		}
		m := room(2, max(0, slots%99), max(0, rows%999))
		a := &m.arguments
		a.size += size % 9
		if rows < 0 { // no array is as long
			a.roomNodes = rows
		}
		unsafe.Slice(a.actions, 2)[1], unsafe.Slice(a.seeds, 2)[1] = action, seed
		for i, p := range []*unsafe.Pointer{
			(*unsafe.Pointer)(unsafe.Pointer(&a.actions)), (*unsafe.Pointer)(unsafe.Pointer(&a.seeds)),
			(*unsafe.Pointer)(unsafe.Pointer(&a.resetMask)),
			(*unsafe.Pointer)(unsafe.Pointer(&a.reward)), (*unsafe.Pointer)(unsafe.Pointer(&a.seed)), (*unsafe.Pointer)(unsafe.Pointer(&a.podX)),
			(*unsafe.Pointer)(unsafe.Pointer(&a.clusterX)), (*unsafe.Pointer)(unsafe.Pointer(&a.candidateOffsets)),
			(*unsafe.Pointer)(unsafe.Pointer(&a.candidateX)),
			(*unsafe.Pointer)(unsafe.Pointer(&a.candidateNode)), (*unsafe.Pointer)(unsafe.Pointer(&a.mask)),
			(*unsafe.Pointer)(unsafe.Pointer(&a.nodeOffsets)),
			(*unsafe.Pointer)(unsafe.Pointer(&a.zoneOffset)), (*unsafe.Pointer)(unsafe.Pointer(&a.nodeX)),
			(*unsafe.Pointer)(unsafe.Pointer(&a.nodeZone)),
			(*unsafe.Pointer)(unsafe.Pointer(&a.groupX)), (*unsafe.Pointer)(unsafe.Pointer(&a.groupWeight)),
			(*unsafe.Pointer)(unsafe.Pointer(&a.groupNode)),
			(*unsafe.Pointer)(unsafe.Pointer(&a.nodeRaw)), (*unsafe.Pointer)(unsafe.Pointer(&a.podRaw)),
		} {
			if missing>>i&1 == 1 {
				*p = nil
			}
		}
		status := play(h, what, a)
		if status != ok && status != grow && status != failed {
			t.Fatalf("status %d", status)
		}
		if status == failed && strings.Contains(string(a.message[:]), "a fault of") {
			t.Fatalf("it panicked: %s", a.message)
		}
		for i, whole := range m.guards {
			if !whole() {
				t.Fatalf("array %d was written behind its end", i)
			}
		}
	})
}
