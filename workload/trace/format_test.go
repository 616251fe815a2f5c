package trace

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"gnnsched/internal/fatal"
	"gnnsched/workload/record"
)

const (
	podList     = "# the trace\nname,cpu_milli,memory_mib,num_gpu,gpu_milli,creation_time,deletion_time\na,500,1024,1,250,7,9\nb,500,1024,0,0,5,6\n"
	arrivalsCSV = "name,arrival,lifetime,cpu_request,mem_request\na,7,2,500m,1Gi\nb,5,1,500m,1Gi\n"
	tried       = ": openb needs name,cpu_milli,memory_mib,num_gpu,gpu_milli; "
	// after other formats, if there are any
	triedThen = " arrivals needs arrival,cpu_request,mem_request; plan needs name,pod_count,cpu_request,cpu_limit,mem_request,mem_limit"
	planCSV   = "name,pod_count,cpu_request,cpu_limit,mem_request,mem_limit,action\na,1,500m,,1Gi,,add\nb,1,500m,,1Gi,,add\n"
)

func TestRead(t *testing.T) {
	for _, c := range []struct {
		name, text string
		format     string // that reads it
		is         string // the format of the file
		pods       int    // rows of an openb pod list
		first      string // the name of the first arrival
		at         float64
		err        string
	}{
		{name: "openb", text: podList, format: "auto", is: "openb", pods: 2, first: "b", at: 2},
		{name: "openb by name", text: podList, format: "openb", is: "openb", pods: 2, first: "b", at: 2},
		{name: "arrivals", text: arrivalsCSV, format: "auto", is: "arrivals", first: "b", at: 2},
		{name: "plan", text: planCSV, format: "auto", is: "plan", first: "a", at: 1},
		{name: "plan by name", text: planCSV, format: "plan", is: "plan", first: "a", at: 1},
		{name: "plan as arrivals", text: planCSV, format: "arrivals", is: "plan", first: "a", at: 1},
		{name: "plan without a header", text: "a,1,1,,1Gi,,add\nb,1,1,,1Gi,,add\n", format: "auto", is: "plan", first: "a", at: 1},
		{name: "arrivals as openb", text: arrivalsCSV, format: "openb", err: "f:1: column cpu_milli is missing; an openb pod list has"},
		{name: "openb as arrivals", text: podList, format: "arrivals", err: "f:2:6: pod_count: "},
		{name: "node list", text: "sn,cpu_milli,memory_mib,gpu,model\n", format: "auto",
			err: "f:1: this is an openb node list, but an openb pod list is needed"},
		{name: "unknown header", text: "id,cores,start\nx,1,2\n", format: "auto",
			err: "f:1: the first line is neither a header nor a deployment; the formats" + tried},
		{name: "unknown header as wide as a plan", text: "id,cores,start,a,b,c,d\nx,1,2,3,4,5,6\n", format: "auto",
			err: "f:1:4: pod_count: \"cores\" is not a number of pods from 1 to 10000; the first line is not the header of any format" + tried},
		{name: "nothing", format: "auto", err: "f: the file is empty"},
		{name: "fault", text: podList + "c,x,1,0,0,,\n", format: "auto", err: `f:5:3: cpu_milli: "x" is not a whole number`},
	} {
		format := Auto
		for _, f := range formats {
			if f.Name == c.format {
				format = f
			}
		}
		got, err := format.Read(iotest.OneByteReader(strings.NewReader(c.text)), "f")
		if c.err != "" {
			if err == nil || !strings.HasPrefix(err.Error(), c.err) {
				t.Errorf("%s: %v, want %q", c.name, err, c.err)
			} else if n := strings.Count(err.Error(), "pod_count,"); strings.Contains(c.err, tried) && n != 1 {
				t.Errorf("%s: %v: names the columns of a plan %d times", c.name, err, n)
			} else if named := strings.Contains(err.Error(), tried); named != strings.Contains(c.err, tried) || named &&
				!strings.HasSuffix(err.Error(), triedThen) {
				t.Errorf("%s: %v: it must name all formats, or none if the header is known", c.name, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if got.Format.Name != c.is || len(got.Pods) != c.pods || len(got.Arrivals) != 2 || got.Arrivals[0].Deployment.Name != c.first ||
			got.Arrivals[1].At != c.at {
			t.Errorf("%s: %+v", c.name, got)
		}
		if c.pods > 0 && (got.Arrivals[0].Lifetime != 1 || got.Arrivals[1].Lifetime != 2 || math.IsInf(got.Arrivals[0].Lifetime, 1)) {
			t.Errorf("%s: lifetimes of %+v", c.name, got.Arrivals)
		}
	}
	if _, err := Auto.Read(iotest.ErrReader(os.ErrPermission), "f"); err == nil || !strings.HasPrefix(err.Error(), "f: ") {
		t.Errorf("a file that cannot be read: %v", err)
	}
}

// FuzzAuto checks that the recognised format reads a file as if it had been named, and that errors begin
// with the file name.
func FuzzAuto(f *testing.F) {
	for _, text := range []string{podList, arrivalsCSV, planCSV, "a,1,1,,1Gi,,add\n", "id,cores,start\n", "# only a comment\n",
		"\xef\xbb\xbfname,arrival\n\"", "sn,cpu_milli\n"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := Auto.Read(bytes.NewReader(data), "f")
		if err != nil {
			if !strings.HasPrefix(err.Error(), "f:") {
				t.Fatalf("error without the file's name: %v", err)
			}
			return
		}
		if got.Format == Auto || len(got.Arrivals) == 0 {
			t.Fatalf("%d arrivals in the format %v", len(got.Arrivals), got.Format)
		}
		again, err := got.Format.Read(bytes.NewReader(data), "f")
		if err != nil || !cmp.Equal(got, again, cmp.Comparer(func(a, b *Format) bool { return a == b })) {
			t.Fatalf("not the same when read as %s: %v", got.Format.Name, err)
		}
	})
}

func TestLoad(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "r.record")
	w, err := record.Create(dir, record.Options{})
	fatal.If(t, err)
	w.Pod(record.Pod{UID: "1", Name: "a", MilliCPU: 100, Arrived: 5000, Bound: 5000, Ended: 9000, Claims: `["data"]`})
	if _, err := w.Close(); err != nil {
		t.Fatal(err)
	}
	f, err := Load(dir)
	if err != nil || len(f.Arrivals) != 1 || f.Arrivals[0].Lifetime != 4 || len(f.Notes) != 1 ||
		!strings.Contains(f.Notes[0], "volume claims (1 pods)") {
		t.Errorf("%+v, %v", f, err)
	}
	csv := filepath.Join(t.TempDir(), "a.csv")
	fatal.If(t, os.WriteFile(csv, []byte("arrival,cpu_request,mem_request\n0,1,1Gi\n"), 0o600))
	if f, err := Load(csv); err != nil || len(f.Arrivals) != 1 {
		t.Errorf("%+v, %v", f, err)
	}
	if _, err := Load(t.TempDir()); err == nil || !strings.Contains(err.Error(), "no part of a record") {
		t.Errorf("an empty folder: %v", err)
	}
}
