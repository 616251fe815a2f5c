package trace

import (
	"math"
	"os"
	"strings"
	"testing"
	"testing/iotest"
)

const (
	podList  = "# the trace\nname,cpu_milli,memory_mib,num_gpu,gpu_milli,creation_time,deletion_time\na,500,1024,1,250,7,9\nb,500,1024,0,0,5,6\n"
	arrivals = "name,arrival,lifetime,cpu_request,mem_request\na,7,2,500m,1Gi\nb,5,1,500m,1Gi\n"
	plan     = "name,pod_count,cpu_request,cpu_limit,mem_request,mem_limit,action\na,1,500m,,1Gi,,add\nb,1,500m,,1Gi,,add\n"
)

func TestRead(t *testing.T) {
	for _, c := range []struct {
		name, text string
		format     Format
		pods       int    // of an openb trace
		first      string // to arrive
		at         float64
		err        string
	}{
		{name: "openb", text: podList, format: Auto, pods: 2, first: "b", at: 2},
		{name: "openb by name", text: podList, format: OpenB, pods: 2, first: "b", at: 2},
		{name: "arrivals", text: arrivals, format: Auto, first: "b", at: 2},
		{name: "plan", text: plan, format: Auto, first: "a", at: 1},
		{name: "arrivals as openb", text: arrivals, format: OpenB, err: "f:1: column cpu_milli is missing; an openb pod list has"},
		{name: "openb as arrivals", text: podList, format: Arrivals, err: "f:2:6: pod_count: "},
		{name: "node list", text: "sn,cpu_milli,memory_mib,gpu,model\n", format: Auto, err: "f:1: this is an openb node list where an openb pod list is due"},
		{name: "nothing", format: Auto, err: "f: the file is empty"},
		{name: "fault", text: podList + "c,x,1,0,0,,\n", format: Auto, err: `f:5:3: cpu_milli: "x" is not a whole number`},
	} {
		got, err := Read(iotest.OneByteReader(strings.NewReader(c.text)), "f", c.format)
		if c.err != "" {
			if err == nil || !strings.HasPrefix(err.Error(), c.err) {
				t.Errorf("%s: %v, want %q", c.name, err, c.err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if len(got.Pods) != c.pods || len(got.Arrivals) != 2 || got.Arrivals[0].Deployment.Name != c.first || got.Arrivals[1].At != c.at {
			t.Errorf("%s: %+v", c.name, got)
		}
		if c.pods > 0 && (got.Arrivals[0].Lifetime != 1 || got.Arrivals[1].Lifetime != 2 || math.IsInf(got.Arrivals[0].Lifetime, 1)) {
			t.Errorf("%s: lifetimes of %+v", c.name, got.Arrivals)
		}
	}
	if _, err := Read(iotest.ErrReader(os.ErrPermission), "f", Auto); err == nil || !strings.HasPrefix(err.Error(), "f: ") {
		t.Errorf("a file that cannot be read: %v", err)
	}
}

func TestParseFormat(t *testing.T) {
	for _, f := range Formats {
		if got, err := ParseFormat(string(f)); got != f || err != nil {
			t.Errorf("%s: %v, %v", f, got, err)
		}
	}
	if _, err := ParseFormat("parquet"); err == nil || !strings.Contains(err.Error(), "auto, openb, arrivals") {
		t.Errorf("got %v", err)
	}
}
