package convert

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"gnnsched/internal/fatal"
	"gnnsched/internal/golden"
	"gnnsched/workload"
	"gnnsched/workload/usage"
)

// readMeasured reads one file for each text.
func readMeasured(t *testing.T, o formatOptions, texts ...string) *measuredWorkload {
	t.Helper()
	w, err := readFormat(o, named(texts...)...)
	fatal.If(t, err)
	return w
}

func named(texts ...string) (files []measuredFile) {
	for i, text := range texts {
		files = append(files, measuredFile{Name: string(rune('a'+i)) + ".csv", Reader: strings.NewReader(text)})
	}
	return files
}

const gwaText = "Timestamp [ms];\tCPU cores;\tCPU capacity provisioned [MHZ];\tCPU usage [MHZ];\tCPU usage [%];\tMemory capacity " +
	"provisioned [KB];\tMemory usage [KB];\tDisk read throughput [KB/s];\tDisk write throughput [KB/s];\tNetwork received throughput " +
	"[KB/s];\tNetwork transmitted throughput " +
	"[KB/s]\n1376352000;\t4;\t10000.0;\t2500.0;\t25.0;\t4194304.0;\t1048576.0;\t1.0;\t2.0;\t3.0;\t4.0\n1376352300;\t4;\t10000.0;\t5000.0;\t50.0;\t4194304.0;\t2097152.0;\t0.0;\t0.0;\t0.0;\t0.0\n1376353200;\t4;\t10000.0;\t10000.0;\t100.0;\t4194304.0;\t-1;\t0.0;\t0.0;\t0.0;\t0.0\n"

func TestReadMachines(t *testing.T) {
	azureTable := "vm/one==,s,d,0,9000,90,10,80,Interactive,4,8\nvmtwo,s,d,0,9000,90,10,80,Unknown,>24,>64\n"
	alibabaMeta := "c_1,m_1,0,app_1,started,400,400,1.5\nc_1,m_1,9,app_1,started,400,400,1.5\n"
	for _, c := range []struct {
		name   string
		format *measuredFormat
		step   float64
		texts  []string
		want   measuredMachine
		cpu    []float32
	}{
		{
			"gwa-t-12, a gap", nil, 300, []string{gwaText},
			measuredMachine{Name: "vm-a", Cores: 4, Memory: 4 << 30, First: 1376352000}, []float32{1, 2, 2, 2, 4},
		},
		{
			"gwa-t-12, a longer step", nil, 600, []string{gwaText},
			measuredMachine{Name: "vm-a", Cores: 4, Memory: 4 << 30, First: 1376352000}, []float32{1.5, 1.5, 4},
		},
		{
			"vms", nil, 300, []string{vmsHeader + "\n116,4,11704,6213632,14 1000 1250\n"},
			measuredMachine{Name: "vm-116", Cores: 4, Memory: 6213632 << 10}, []float32{0.056, 4, 5},
		},
		{
			"azure", azure, 300, []string{azureTable, "0,vm/one==,1,9,50\n300,other,1,9,5\n300,vm/one==,1,9,25\n"},
			measuredMachine{Name: "vm-vmone", Cores: 4, Memory: 8 << 30}, []float32{2, 1},
		},
		{
			"alibaba-2018, out of order and invalid", alibaba, 300, []string{alibabaMeta,
				"c_1,m_1,400,50,1,1,1,1,1,1,1\nc_1,m_1,10,25,1,1,1,1,1,1,1\nc_1,m_1,700,101,1,1,1,1,1,1,1\nc_1,m_1,800,-1,1,1,1,1,1,1,1\n"},
			measuredMachine{Name: "container-c1", Cores: 4, First: 0}, []float32{1, 2},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := readMeasured(t, formatOptions{Format: c.format, Step: c.step}, c.texts...)
			if len(w.Machines) != 1 {
				t.Fatalf("%d machines", len(w.Machines))
			}
			m := w.Machines[0]
			if m.Name != c.want.Name || m.Cores != c.want.Cores || m.Memory != c.want.Memory || m.First != c.want.First || m.Step != c.step {
				t.Errorf("%+v, want %+v", m, c.want)
			}
			equal(t, m.Used[usage.CPU], c.cpu)
		})
	}
}

func equal(t *testing.T, got, want []float32) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("values %v, want %v", got, want)
	}
	for i := range got {
		if math.Abs(float64(got[i]-want[i])) > 1e-5 {
			t.Fatalf("values %v, want %v", got, want)
		}
	}
}

// A record in reverse order is read as one in order.
func TestReadBackwards(t *testing.T) {
	var forth, back strings.Builder
	header := "one,s,d,0,9,9,1,8,I,4,8\n"
	forth.WriteString(header)
	back.WriteString(header)
	for i := range 300 {
		fmt.Fprintf(&forth, "%d,one,1,1,%d\n", 300*i, i)
		fmt.Fprintf(&back, "%d,one,1,1,%d\n", 300*(299-i), 299-i)
	}
	want, got := readMeasured(t, formatOptions{Step: 300, Format: azure}, forth.String()).Machines[0],
		readMeasured(t, formatOptions{Step: 300, Format: azure}, back.String()).Machines[0]
	if got.First != want.First || len(got.Used[usage.CPU]) != 300 {
		t.Errorf("first %v, %d values", got.First, len(got.Used[usage.CPU]))
	}
	equal(t, got.Used[usage.CPU], want.Used[usage.CPU])
}

// Files of one name in two folders may be of different machines.
func TestReadRefusesEqualNames(t *testing.T) {
	files := []measuredFile{{Name: "x/1.csv", Reader: strings.NewReader(gwaText)}, {Name: "y/1.csv", Reader: strings.NewReader(gwaText)}}
	if _, err := readFormat(formatOptions{Step: 300}, files...); err == nil || !strings.Contains(err.Error(), "y/1.csv: another file has this name too") {
		t.Errorf("error %v", err)
	}
}

// Memory, network and disk of GWA-T-12 are in KB; a value below 0 is ignored, counted and replaced by the one before.
func TestReadEveryDimension(t *testing.T) {
	w := readMeasured(t, formatOptions{Step: 300}, gwaText)
	u := w.Machines[0].Used
	equal(t, u[usage.Memory], []float32{1 << 30, 2 << 30, 2 << 30, 2 << 30, 2 << 30})
	for d, want := range map[usage.Dimension]float32{usage.DiskRead: 1024, usage.DiskWrite: 2048, usage.NetworkIn: 3072,
		usage.NetworkOut: 4096} {
		equal(t, u[d], []float32{want, 0, 0, 0, 0})
	}
	if len(w.Notes) != 2 || !strings.HasPrefix(w.Notes[0], "1 values were ignored") ||
		!strings.HasPrefix(w.Notes[1], "some machines do not follow") {
		t.Errorf("notes %q", w.Notes)
	}
}

// A pod of a shape has the machine's usage at the same time of day.
func TestShapesFollowTheTimeOfDay(t *testing.T) {
	values := make([]float32, 3*288+10) // three days and a bit of five minutes
	for i := range values {
		values[i] = float32(i % 288)
	}
	m := measuredMachine{Name: "vm-a", Cores: 288, Memory: 1 << 30, Step: 300, First: 7 * 3600}
	m.Used[usage.CPU] = values
	shapes, err := (&measuredWorkload{Machines: []measuredMachine{m}}).Shapes(0)
	fatal.If(t, err)
	s := shapes[0]
	if s.Requests.MilliCPU != 288_000 || s.Requests.Memory != 1<<30 {
		t.Errorf("requests %+v", s.Requests)
	}
	if n := len(s.Usage.Curves[usage.CPU].(*usage.Series).Values); n != 3*288 {
		t.Errorf("%d values, want whole days", n)
	}
	for seed := range uint64(20) {
		for _, hour := range []float64{7, 8, 6.5} {
			since := math.Mod(hour-7+24, 24)
			if got, want := s.Usage.At(seed, hour*3600, 0)[usage.CPU], since*12; math.Abs(got-want) > 0.3 {
				t.Errorf("at %v:00 seed %d uses %v cores, want %v", hour, seed, got, want)
			}
		}
	}
}

// A shape may request a percentile of its machine's usage instead of the machine's size.
func TestShapesRequestAPercentile(t *testing.T) {
	w := readMeasured(t, formatOptions{Step: 300}, gwaText) // uses 1, 2, 2, 2 and 4 cores
	for percentile, want := range map[float64]int64{0: 4000, 1: 1000, 20: 1000, 21: 2000, 80: 2000, 81: 4000, 100: 4000} {
		shapes, err := w.Shapes(percentile)
		fatal.If(t, err)
		if r := shapes[0].Requests; r.MilliCPU != want {
			t.Errorf("the %vth percentile is %d, want %d", percentile, r.MilliCPU, want)
		}
	}
	if shapes, _ := w.Shapes(50); shapes[0].Requests.Memory != 2<<30 {
		t.Errorf("requests %+v", shapes[0].Requests)
	}
}

// What Shapes and Arrivals return can be written and read back.
func TestShapesFileRoundTrip(t *testing.T) {
	w := readMeasured(t, formatOptions{Step: 300}, gwaText, strings.Replace(gwaText, "2500.0", "0.0", 1))
	shapes, err := w.Shapes(0)
	fatal.If(t, err)
	var file bytes.Buffer
	fatal.If(t, workload.WriteShapes(&file, shapes))
	back, err := workload.ReadShapes("out.yaml", file.Bytes())
	fatal.If(t, err)
	for i := range shapes {
		for age := 0.0; age < 1500; age += 300 {
			if a, b := shapes[i].Usage.At(1, age, age), back[i].Usage.At(1, age, age); a != b {
				t.Errorf("%s uses %v, read back %v", shapes[i].Name, a, b)
			}
		}
	}
}

// A job's pod does the work that the job did, in the job's time if it gets all it wants.
func TestArrivalsOfJobs(t *testing.T) {
	w := readMeasured(t, formatOptions{Step: 300}, jobsHeader+"\n100,7200,16,500,1000\n40,30,16,1000,1000\n50,60,16,0,0\n")
	if len(w.Jobs) != 2 || len(w.Notes) != 1 {
		t.Fatalf("jobs %+v, notes %q", w.Jobs, w.Notes)
	}
	arrivals, err := w.Arrivals(false)
	fatal.If(t, err)
	first, second := arrivals[0], arrivals[1]
	if first.Deployment.Name != "job-1" || first.At != 0 || second.At != 60 || second.Lifetime != 7200 {
		t.Errorf("arrivals %+v and %+v", first, second)
	}
	if r := second.Deployment.Shape.Requests; r.MilliCPU != 0 {
		t.Errorf("requests %+v without requests", r)
	}
	m, work := second.Deployment.Shape.Usage, 0.0
	if m.Work != 7200*8 {
		t.Errorf("work %v", m.Work)
	}
	for age := 0.5; age < 7200; age++ {
		u := m.At(3, 0, age)[usage.CPU]
		if u != 0 && math.Abs(u-16) > 1e-9 {
			t.Fatalf("uses %v cores", u)
		}
		work += u
	}
	if math.Abs(work-m.Work) > 40 { // the begin and the end of two bursts
		t.Errorf("%v core-seconds in the lifetime, want %v", work, m.Work)
	}
	with, err := w.Arrivals(true)
	if err != nil || with[1].Deployment.Shape.Requests.MilliCPU != 16_000 {
		t.Errorf("requests %+v, error %v", with[1].Deployment.Shape.Requests, err)
	}
}

func TestBatchInstances(t *testing.T) {
	w := readMeasured(t, formatOptions{Format: alibabaBatch, Step: 300},
		"i1,t1,j1,1,Terminated,100,160,m,1,1,50,100,0.1,0.2\ni2,t1,j1,1,Failed,100,160,m,1,1,50,100,0.1,0.2\ni3,t1,j1,1,Terminated,0,160,m,1,1,50,,,\n")
	if len(w.Jobs) != 1 || len(w.Notes) != 1 {
		t.Fatalf("jobs %+v, notes %q", w.Jobs, w.Notes)
	}
	if j := w.Jobs[0]; j.Lifetime != 60 || j.Mean != 0.5 || j.Max != 1 || j.Cores != 0 {
		t.Errorf("job %+v", j)
	}
}

// Every machine is in one of the parts, for any other options, and a quarter is for judging.
func TestParts(t *testing.T) {
	var text strings.Builder
	text.WriteString(vmsHeader + "\n")
	for i := range 400 {
		text.WriteString(strings.Repeat("9", i/100+1) + "x" + strings.Repeat("1", i%100) + ",4,1,1024,1 2 3\n")
	}
	part := map[string]Part{}
	for _, p := range []Part{Training, Judging} {
		for _, m := range readMeasured(t, formatOptions{Step: 300, Part: p}, text.String()).Machines {
			if part[m.Name] != "" {
				t.Errorf("%s is in two parts", m.Name)
			}
			part[m.Name] = p
		}
	}
	judging := 0
	for _, p := range part {
		if p == Judging {
			judging++
		}
	}
	if len(part) != 400 || judging < 70 || judging > 130 {
		t.Errorf("%d machines, %d for judging", len(part), judging)
	}
	for _, m := range readMeasured(t, formatOptions{Step: 600, Part: Judging, Limit: 5, days: 1}, text.String()).Machines {
		if part[m.Name] != Judging {
			t.Errorf("%s changed its part", m.Name)
		}
	}
}

func TestLimitAndDays(t *testing.T) {
	w := readMeasured(t, formatOptions{Step: 43200, days: 1, Limit: 1, Format: azure},
		"one,s,d,0,9,9,1,8,I,4,8\ntwo,s,d,0,9,9,1,8,I,4,8\n0,one,1,1,50\n50000,one,1,1,25\n100000,one,1,1,75\n0,two,1,1,1\n")
	if len(w.Machines) != 1 || len(w.Machines[0].Used[usage.CPU]) != 2 {
		t.Errorf("machines %+v", w.Machines)
	}
	if len(w.Notes) != 1 || !strings.Contains(w.Notes[0], "only the first 1 were read") {
		t.Errorf("notes %q", w.Notes)
	}
}

func TestErrors(t *testing.T) {
	stopped := errors.New("stopped")
	for _, c := range []struct {
		name string
		o    formatOptions
		text string
		want string
	}{
		{"no known format", formatOptions{Step: 300}, "a,b\n1,2\n", "a.csv: its first line belongs to no known format"},
		{"empty", formatOptions{Step: 300}, "", "a.csv: its first line"},
		{"only a header", formatOptions{Step: 300}, jobsHeader + "\n", "a.csv: the file has nothing to read"},
		{"no arrival", formatOptions{Step: 300}, jobsHeader + "\n,2,3,4,5\n", `a.csv:2: arrival_s: "" is not a time`},
		{"an endless arrival", formatOptions{Step: 300}, jobsHeader + "\nInf,2,3,4,5\n", `a.csv:2: arrival_s: "Inf" is not a time`},
		{"a machine twice", formatOptions{Step: 300}, vmsHeader + "\n1,2,3,4,5\n1,2,3,4,5\n", `a.csv:3: machine "1" is there twice`},
		{"a word", formatOptions{Step: 300}, jobsHeader + "\n1,2,x,4,5\n", `a.csv:2: cores: "x" is not a number`},
		{"cut off", formatOptions{Step: 300}, vmsHeader + "\n116,4,117", "a.csv:2: the line has 3 cells, want 5"},
		{"a column less", formatOptions{Step: 300}, strings.Replace(gwaText, "CPU cores", "cores", 1), `a.csv:1: column "CPU cores" is missing`},
		{"negative cores", formatOptions{Step: 300}, vmsHeader + "\n116,-4,1,1,1\n", "a.csv:2: cores: -4 is not 0 to 10000"},
		{"readings first", formatOptions{Step: 300, Format: azure}, "0,one,1,1,50\n", "a.csv:1: no machine is known yet"},
		{"readings of other machines", formatOptions{Step: 300, Format: azure}, "vmC,s,d,0,9,9,1,8,I,4,8\n0,vmZ,1,1,50\n",
			`no measurement belongs to a machine of vmtable.csv: it has 1 ("vmC" is the first), the measurements are of 1 ("vmZ" is the first)`},
		{"usage of other containers", formatOptions{Step: 300, Format: alibaba}, "c_1,m_1,0,a,s,400,400,1\nc_2,m_1,10,25,1,1,1,1,1,1,1\n",
			"no measurement belongs to a container of container_meta.csv"},
		{"a table alone", formatOptions{Step: 300, Format: azure}, "vmC,s,d,0,9,9,1,8,I,4,8\n",
			"no file has measurements of the machines of vmtable.csv"},
		{"no cores", formatOptions{Step: 300, Format: azure}, "vmC,s,d,0,9,9,1,8,I,,8\n0,vmC,1,1,50\n",
			"nothing to read: machines were left out, as their cores are not known: 1 (\"vm-vmC\""},
		{"usage first", formatOptions{Step: 300, Format: alibaba}, "c_1,m_1,10,25,1,1,1,1,1,1,1\n", "a.csv:1: no container is known yet"},
		{"no step", formatOptions{}, vmsHeader, "a step of 0 seconds"},
		{"another format", formatOptions{Step: 300, Format: vmsFormat}, gwaText, "a.csv:1: the"},
		{"interrupted", formatOptions{Step: 300, Format: vmsFormat, Progress: func(int64) error { return stopped }}, vmsHeader + "\n", "stopped"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := readFormat(c.o, named(c.text)...); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
	if _, err := formatNamed("csv"); err == nil || !strings.Contains(err.Error(), "gwa-t-12") {
		t.Errorf("error %v", err)
	}
}

// Rows without a counterpart in the other table, or without a value, are counted and named.
func TestLeftOut(t *testing.T) {
	for _, c := range []struct {
		format *measuredFormat
		text   string
		notes  []string
	}{
		{azure, golden.Read(t, "azure-dropped.csv"), []string{
			`machines of vmtable.csv were left out, as they have no measurements: 1 ("vmC" is the first)`,
			`measurements were left out, as vmtable.csv lacks their machines: 1 ("vmZ" is the first)`}},
		{alibaba, "c_1,m_1,0,a,s,400,400,1\nc_2,m_1,0,a,s,400,400,1\nc_1,m_1,10,25,1,1,1,1,1,1,1\nc_8,m_1,10,25,1,1,1,1,1,1,1\nc_9,m_1,10,25,1,1,1,1,1,1,1\n", []string{
			`containers of container_meta.csv were left out, as they have no measurements: 1 ("c_2" is the first)`,
			`measurements were left out, as container_meta.csv lacks their containers: 2 ("c_8" is the first)`}},
		{azure, "a+b,s,d,0,9,9,1,8,I,4,8\na/b,s,d,0,9,9,1,8,I,4,8\n0,a+b,1,1,50\n0,a/b,1,1,50\n", []string{
			`machines were left out, as after shortening, another machine has the same name: 1 ("a/b" is the first)`}},
		{vmsFormat, vmsHeader + "\n116,4,117,6213632,14\n117,4,117,6213632,\n118,0,117,6213632,14\n", []string{
			`machines were left out, as they have no valid value: 1 ("vm-117" is the first)`,
			`machines were left out, as their cores are not known: 1 ("vm-118" is the first)`}},
	} {
		w := readMeasured(t, formatOptions{Step: 300, Format: c.format}, c.text)
		for _, want := range c.notes {
			if !slices.Contains(w.Notes, want) {
				t.Errorf("%s: notes %q, want %q", c.format.Name, w.Notes, want)
			}
		}
		if len(w.Machines) != 1 {
			t.Errorf("%s: machines %+v", c.format.Name, w.Machines)
		}
	}
}

func FuzzRead(f *testing.F) {
	for i, text := range []string{gwaText, vmsHeader + "\n116,4,11704,6213632,14 1000\n", "one,s,d,0,9,9,1,8,I,4,8\n0,one,1,1,50\n",
		"c_1,m_1,0,a,s,400,400,1\nc_1,m_1,10,25,1,1,1,1,1,1,1\n", "i1,t1,j1,1,Terminated,100,160,m,1,1,50,100,0.1,0.2\n",
		jobsHeader + "\n100,7200,16,500,1000\n"} {
		f.Add(uint8(i), text)
	}
	f.Fuzz(func(t *testing.T, format uint8, text string) {
		w, err := readFormat(formatOptions{Format: measuredFormats()[int(format)%len(measuredFormats())], Step: 300, days: 30}, named(text)...)
		if err != nil {
			return
		}
		shapes, err := w.Shapes(0)
		if err == nil && len(w.Machines) > 0 {
			var file bytes.Buffer
			fatal.If(t, workload.WriteShapes(&file, shapes))
		}
		_, _ = w.Arrivals(true)
	})
}
