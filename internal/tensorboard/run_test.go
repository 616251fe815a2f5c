package tensorboard_test

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clocktest "k8s.io/utils/clock/testing"
	"pgregory.net/rapid"

	"gnnsched/internal/fatal"
	"gnnsched/internal/tensorboard"
)

var noon = time.Unix(1_700_000_000, 500_000_000)

// write opens a run in dir, calls do and closes the run.
func write(t *testing.T, dir string, at time.Time, do func(*tensorboard.Run)) {
	t.Helper()
	r, err := tensorboard.Open(dir, clocktest.NewFakePassiveClock(at))
	fatal.If(t, err)
	do(r)
	fatal.If(t, r.Close())
}

func eventFiles(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "events.out.tfevents.*"))
	fatal.If(t, err)
	slices.Sort(files)
	return files
}

func scalars(t *testing.T, dir string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, tensorboard.ScalarsFile))
	fatal.If(t, err)
	return string(b)
}

func TestScalar(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "logs", "run")
	write(t, dir, noon, func(r *tensorboard.Run) {
		r.Scalar("train/loss", 0, 0.1)
		r.Scalar("train/loss", 1<<40, math.Inf(-1))
		r.Scalar("a, \"b\"", 7, -2)
	})
	files := eventFiles(t, dir)
	host, err := os.Hostname()
	fatal.If(t, err)
	if want := filepath.Join(dir, "events.out.tfevents.1700000000."+host); len(files) != 1 || files[0] != want {
		t.Fatalf("files %v, want %s", files, want)
	}
	type row struct {
		tag   string
		step  int64
		value float32
	}
	var got []row
	for i, e := range decode(t, files[0]) {
		if e.number("wall_time") != 1_700_000_000.5 {
			t.Errorf("wall time %v", e.number("wall_time"))
		}
		if i == 0 {
			if v := e.get("file_version").String(); v != "brain.Event:2" {
				t.Errorf("file version %q", v)
			}
			continue
		}
		v := e.value(t)
		got = append(got, row{v.get("tag").String(), e.get("step").Int(), float32(v.number("simple_value"))})
	}
	want := []row{{"train/loss", 0, 0.1}, {"train/loss", 1 << 40, float32(math.Inf(-1))}, {"a, \"b\"", 7, -2}}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	csv := "step,tag,value\n0,train/loss,0.1\n1099511627776,train/loss,-Inf\n7,\"a, \"\"b\"\"\",-2\n"
	if d := cmp.Diff(csv, scalars(t, dir)); d != "" {
		t.Error(d)
	}
}

// Each finite value is counted once, in the bucket whose limits enclose it. Minimum, maximum, number and sum cover the finite values.
func TestHistogram(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		values := rapid.SliceOfN(rapid.OneOf(rapid.Float64Range(-1e300, 1e300), rapid.Float64(), rapid.Float64Range(-1, 1),
			rapid.SampledFrom([]float64{0, 1, math.NaN(), math.Inf(1), math.MaxFloat64, -math.MaxFloat64})), 0, 50).Draw(rt, "values")
		var finite []float64
		for _, v := range values {
			if !math.IsNaN(v) && !math.IsInf(v, 0) {
				finite = append(finite, v)
			}
		}
		dir := t.TempDir()
		write(t, dir, noon, func(r *tensorboard.Run) { r.Histogram("weights", 3, values) })
		events := decode(t, eventFiles(t, dir)[0])[1:]
		if len(finite) == 0 {
			if len(events) != 0 {
				rt.Fatal("a histogram of no finite value")
			}
			return
		}
		h := events[0].value(t).sub("histo")
		limits, counts := h.numbers("bucket_limit"), h.numbers("bucket")
		if !slices.IsSorted(limits) || len(counts) != len(limits) {
			rt.Fatalf("limits %v, counts %v", limits, counts)
		}
		var sum float64
		want := make([]float64, len(limits))
		for _, v := range finite {
			sum += v
			i, _ := slices.BinarySearch(limits, v)
			want[i]++
		}
		if !slices.Equal(counts, want) {
			rt.Errorf("counts %v, want %v of %v in %v", counts, want, finite, limits)
		}
		if h.number("min") != slices.Min(finite) || h.number("max") != slices.Max(finite) || h.number("num") != float64(len(finite)) ||
			h.number("sum") != sum {
			rt.Errorf("%v of %v", h.Message, finite)
		}
	})
}

// A second run in a folder gets an event file of its own, which sorts after the first one even within
// one second. It continues the CSV, without an incomplete last line.
func TestSecondRun(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, noon, func(r *tensorboard.Run) { r.Scalar("x", 1, 1) })
	f, err := os.OpenFile(filepath.Join(dir, tensorboard.ScalarsFile), os.O_APPEND|os.O_WRONLY, 0)
	fatal.If(t, err)
	if _, err := f.WriteString("2,x"); err != nil {
		t.Fatal(err)
	}
	fatal.If(t, f.Close())
	write(t, dir, noon, func(r *tensorboard.Run) { r.Scalar("x", 2, 2) })
	write(t, dir, noon.Add(time.Second), func(r *tensorboard.Run) { r.Scalar("x", 3, 3) })
	var steps []int64
	for _, file := range eventFiles(t, dir) {
		for _, e := range decode(t, file)[1:] {
			steps = append(steps, e.get("step").Int())
		}
	}
	if !slices.Equal(steps, []int64{1, 2, 3}) {
		t.Errorf("steps %v", steps)
	}
	if d := cmp.Diff("step,tag,value\n1,x,1\n2,x,2\n3,x,3\n", scalars(t, dir)); d != "" {
		t.Error(d)
	}
}

// After Rewind, the CSV equals the CSV of a run that stopped at the given step.
func TestRewind(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		done, back := rapid.IntRange(0, 8).Draw(rt, "done"), rapid.IntRange(0, 10).Draw(rt, "back to")
		broken, whole := t.TempDir(), t.TempDir()
		upTo := func(from, to int) func(*tensorboard.Run) {
			return func(r *tensorboard.Run) {
				if from > 0 {
					r.Rewind(from)
				}
				for step := from + 1; step <= to; step++ {
					r.Scalar("x,y", step, float64(step))
					r.Scalar("z\n", step, 0.5)
				}
			}
		}
		write(t, broken, noon, upTo(0, done))
		write(t, broken, noon.Add(time.Minute), func(r *tensorboard.Run) { r.Rewind(back); r.Scalar("end", back+1, 1) })
		write(t, whole, noon, func(r *tensorboard.Run) { upTo(0, min(done, back))(r); r.Scalar("end", back+1, 1) })
		if d := cmp.Diff(scalars(t, whole), scalars(t, broken)); d != "" {
			rt.Error(d)
		}
		e := decode(t, eventFiles(t, broken)[1])[1]
		if e.get("step").Int() != int64(back+1) || e.sub("session_log").get("status").Int() != 1 || e.has("summary") {
			rt.Errorf("the first event is %v, want the start of a session at step %d", e.Message, back+1)
		}
	})
}

func TestErrors(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	fatal.If(t, os.WriteFile(file, nil, 0o600))
	if _, err := tensorboard.Open(file, clocktest.NewFakePassiveClock(noon)); err == nil {
		t.Error("no error for a file in place of the folder")
	}
	dir := t.TempDir()
	fatal.If(t, os.WriteFile(filepath.Join(dir, tensorboard.ScalarsFile), []byte("step,tag,value\nsoon,x,1\n"), 0o600))
	r, err := tensorboard.Open(dir, clocktest.NewFakePassiveClock(noon))
	fatal.If(t, err)
	r.Rewind(3)
	r.Scalar("x", 4, 4)
	if err := r.Close(); err == nil {
		t.Error("no error for a malformed CSV")
	}
}
