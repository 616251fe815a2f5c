package convert

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"gnnsched/internal/exit"
	"gnnsched/internal/fatal"
	"gnnsched/workload"
	"gnnsched/workload/usage"
)

// readText reads one file for each text: a.csv, b.csv and so on.
func readText(t *testing.T, r *reading, texts ...string) error {
	t.Helper()
	dir := t.TempDir()
	for i, text := range texts {
		fatal.If(t, os.WriteFile(filepath.Join(dir, string(rune('a'+i))+".csv"), []byte(text), 0o600))
	}
	return r.readMeasured(context.Background(), []string{dir})
}

const gwaText = "Timestamp [ms];\tCPU cores;\tCPU capacity provisioned [MHZ];\tCPU usage [MHZ];\tCPU usage [%];\tMemory capacity " +
	"provisioned [KB];\tMemory usage [KB];\tDisk read throughput [KB/s];\tDisk write throughput [KB/s];\tNetwork received throughput " +
	"[KB/s];\tNetwork transmitted throughput " +
	"[KB/s]\n1376352000;\t4;\t10000.0;\t2500.0;\t25.0;\t4194304.0;\t1048576.0;\t1.0;\t2.0;\t3.0;\t4.0\n1376352300;\t4;\t10000.0;\t5000.0;\t50.0;\t4194304.0;\t2097152.0;\t0.0;\t0.0;\t0.0;\t0.0\n1376353200;\t4;\t10000.0;\t10000.0;\t100.0;\t4194304.0;\t-1;\t0.0;\t0.0;\t0.0;\t0.0\n"

const (
	azureTable  = "vm/one==,s,d,0,9000,90,10,80,Interactive,4,8\nvmtwo,s,d,0,9000,90,10,80,Unknown,>24,>64\n"
	azureUsed   = "0,vm/one==,1,9,50\n300,other,1,9,5\n300,vm/one==,1,9,25\n"
	alibabaMeta = "c_1,m_1,0,app_1,started,400,400,1.5\nc_1,m_1,9,app_1,started,400,400,1.5\n"
	alibabaUsed = "c_1,m_1,400,50,1,1,1,1,1,1,1\nc_1,m_1,10,25,1,1,1,1,1,1,1\nc_1,m_1,700,101,1,1,1,1,1,1,1\nc_1,m_1,800,-1,1,1,1,1,1,1,1\n"
)

func TestReadMachines(t *testing.T) {
	for _, c := range []struct {
		name   string
		format *measuredFormat
		step   float64
		texts  []string
		want   machine
		cpu    []float32
	}{
		{"a gap", gwa, 300, []string{gwaText}, machine{name: "vm-a", cores: 4, memory: 4 << 30, from: 1376352000 / 300}, []float32{1, 2, 2, 2, 4}},
		{"a longer step", gwa, 600, []string{gwaText}, machine{name: "vm-a", cores: 4, memory: 4 << 30, from: 1376352000 / 600}, []float32{1.5, 1.5, 4}},
		{"azure", azure, 300, []string{azureTable, azureUsed}, machine{name: "vm-vmone", cores: 4, memory: 8 << 30}, []float32{2, 1}},
		{"out of order and invalid", alibaba, 300, []string{alibabaMeta, alibabaUsed}, machine{name: "container-c1", cores: 4}, []float32{1, 2}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := &reading{format: c.format, step: c.step}
			if err := readText(t, r, c.texts...); err != nil || len(r.order) != 1 {
				t.Fatalf("%d machines, %v", len(r.order), err)
			}
			m := r.order[0]
			if m.name != c.want.name || m.cores != c.want.cores || m.memory != c.want.memory || m.from != c.want.from {
				t.Errorf("%+v, want %+v", m, c.want)
			}
			equal(t, m.means(usage.CPU, m.steps()), c.cpu)
		})
	}
}

func equal(t *testing.T, got, want []float32) {
	t.Helper()
	if !slices.EqualFunc(got, want, func(a, b float32) bool { return math.Abs(float64(a-b)) < 1e-5 }) {
		t.Fatalf("values %v, want %v", got, want)
	}
}

// Memory, network and disk of GWA-T-12 are in KB; a value below 0 is ignored, counted and replaced by the one before.
func TestReadEveryDimension(t *testing.T) {
	r := &reading{format: gwa, step: 300}
	fatal.If(t, readText(t, r, gwaText))
	m := r.order[0]
	equal(t, m.means(usage.Memory, 5), []float32{1 << 30, 2 << 30, 2 << 30, 2 << 30, 2 << 30})
	for d, want := range map[usage.Dimension]float32{usage.DiskRead: 1024, usage.DiskWrite: 2048, usage.NetworkIn: 3072, usage.NetworkOut: 4096} {
		equal(t, m.means(d, 5), []float32{want, 0, 0, 0, 0})
	}
	_, err := r.shapes()
	fatal.If(t, err)
	if len(r.notes) != 2 || !strings.HasPrefix(r.notes[0], "1 values were ignored") || !strings.HasPrefix(r.notes[1], "some machines do not follow") {
		t.Errorf("notes %q", r.notes)
	}
}

// A pod of a shape has the machine's usage at the same time of day.
func TestShapesFollowTheTimeOfDay(t *testing.T) {
	m := &machine{name: "vm-a", cores: 288, memory: 1 << 30}
	for i := range 3*288 + 10 { // three days and a bit of five minutes
		m.add(usage.CPU, float64(7*12+i), float64(i%288))
	}
	shapes, err := (&reading{step: 300, order: []*machine{m}}).shapes()
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

// The shapes can be written and read back.
func TestShapesFileRoundTrip(t *testing.T) {
	r := &reading{format: gwa, step: 300}
	fatal.If(t, readText(t, r, gwaText, strings.Replace(gwaText, "2500.0", "0.0", 1)))
	shapes, err := r.shapes()
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

func TestLimitAndDays(t *testing.T) {
	r := &reading{format: azure, step: 43200, days: 1, limit: 1}
	fatal.If(t, readText(t, r, "one,s,d,0,9,9,1,8,I,4,8\ntwo,s,d,0,9,9,1,8,I,4,8\n0,one,1,1,50\n50000,one,1,1,25\n100000,one,1,1,75\n0,two,1,1,1\n"))
	shapes, err := r.shapes()
	fatal.If(t, err)
	if len(shapes) != 1 || len(shapes[0].Usage.Curves[usage.CPU].(*usage.Series).Values) != 2 {
		t.Errorf("shapes %+v", shapes)
	}
	if len(r.notes) != 1 || !strings.Contains(r.notes[0], "only the first 1 were read") {
		t.Errorf("notes %q", r.notes)
	}
}

func TestErrors(t *testing.T) {
	for _, c := range []struct {
		name   string
		format *measuredFormat
		text   string
		want   string
	}{
		{"empty", gwa, "", "no machine has a measurement"},
		{"another format", gwa, "a,b\n1,2\n", `a.csv:2: column "Timestamp [ms]" is missing`},
		{"cut off", gwa, gwaText + "1376353200;", "a.csv:5: the line has 2 cells, want [11]"},
		{"a column less", gwa, strings.Replace(gwaText, "CPU cores", "cores", 1), `a.csv:2: column "CPU cores" is missing`},
		{"a word", gwa, strings.Replace(gwaText, "2500.0", "x", 1), `a.csv:2: CPU usage [MHZ]: "x" is not a number`},
		{"negative cores", azure, "one,s,d,0,9,9,1,8,I,-4,8\n", `a.csv:1: cores: "-4" is not 0 to 100000`},
		{"readings first", azure, "0,one,1,1,50\n", "a.csv:1: no machine is known yet: give vmtable.csv"},
		{"usage first", alibaba, "c_1,m_1,10,25,1,1,1,1,1,1,1\n", "a.csv:1: no machine is known yet"},
		{"readings of other machines", azure, "vmC,s,d,0,9,9,1,8,I,4,8\n0,vmZ,1,1,50\n", `has a measurement; ` +
			`machines were left out, as no file has measurements of them: 1 ("vm-vmC" is the first); ` +
			`machines were left out, as their size is not known: 1 ("vm-vmZ" is the first)`},
		{"no cores", azure, "vmC,s,d,0,9,9,1,8,I,,8\n0,vmC,1,1,50\n", `as their cores are not known: 1 ("vm-vmC"`},
	} {
		if err := readText(t, &reading{format: c.format, step: 300}, c.text); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", c.name, err, c.want)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	dir := t.TempDir()
	for _, name := range []string{"x", "y"} { // files of one name in two folders may be of different machines
		fatal.If(t, os.Mkdir(filepath.Join(dir, name), 0o700))
		fatal.If(t, os.WriteFile(filepath.Join(dir, name, "1.csv"), []byte(gwaText), 0o600))
	}
	paths := []string{filepath.Join(dir, "x"), filepath.Join(dir, "y")}
	if err := (&reading{format: gwa, step: 300}).readMeasured(t.Context(), paths); err == nil || !strings.Contains(err.Error(), "this name too") {
		t.Errorf("error %v", err)
	}
	if err := (&reading{format: gwa, step: 300}).readMeasured(ctx, paths); err != context.Canceled {
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
		{azure, fatal.ReadGolden(t, "azure-dropped.csv"), []string{`no file has measurements of them: 1 ("vm-vmC"`, `their size is not known: 1 ("vm-vmZ"`}},
		{azure, "a+b,s,d,0,9,9,1,8,I,4,8\na/b,s,d,0,9,9,1,8,I,4,8\n0,a+b,1,1,50\n0,a/b,1,1,50\n", []string{
			`after shortening, another machine has the same name: 1 ("vm-a/b" is the first)`}},
		{azure, "a,s,d,0,9,9,1,8,I,4,8\nb,s,d,0,9,9,1,8,I,4,8\n0,a,1,1,50\n0,b,1,1,\n", []string{`they have no valid value: 1 ("vm-b" is the first)`}},
	} {
		r := &reading{format: c.format, step: 300}
		fatal.If(t, readText(t, r, c.text))
		for _, want := range c.notes {
			if !strings.Contains(fmt.Sprint(r.notes), want) {
				t.Errorf("notes %q, want %q", r.notes, want)
			}
		}
		if len(r.order) != 1 {
			t.Errorf("%d machines", len(r.order))
		}
	}
}

func FuzzRead(f *testing.F) {
	for i, text := range []string{gwaText, azureTable + azureUsed, alibabaMeta + alibabaUsed} {
		f.Add(uint8(i), text)
	}
	f.Fuzz(func(t *testing.T, format uint8, text string) {
		r := &reading{format: measuredFormats()[int(format)%len(measuredFormats())], step: 300, days: 30}
		if readText(t, r, text) != nil {
			return
		}
		if shapes, err := r.shapes(); err == nil {
			fatal.If(t, workload.WriteShapes(&bytes.Buffer{}, shapes))
		}
	})
}

// A file of a folder that may have held objects is an error. Files without objects and unreadable files are left out and named.
func TestFolder(t *testing.T) {
	pod := `{"kind":"PodList","items":[{"metadata":{"name":"q","namespace":"y"},"spec":{"nodeName":"n1"}}]}`
	for what, c := range map[string]struct {
		files map[string]string
		code  int
		want  []string
	}{
		"cut off": {map[string]string{"pods.json": pod[:50]}, exit.Usage,
			[]string{"pods.json: not what kubectl", "the file is cut off after 50 bytes"}},
		"packed": {map[string]string{"pods.json": "\x1f\x8b\x08\x00"}, exit.Usage,
			[]string{"pods.json: not what kubectl", "the file is packed"}},
		"zeros": {map[string]string{"pods.json": "\x00\x00\x00\x00"}, exit.Usage,
			[]string{"pods.json: not what kubectl", "the file is no text"}},
		"half a character": {map[string]string{"pods.json": "\xff\xfe{\x00}"}, exit.Usage,
			[]string{"pods.json: not what kubectl", "its last character is cut off"}},
		"malformed":      {map[string]string{"pods.json": pod + "{7}"}, exit.Usage, []string{"pods.json: byte"}},
		"malformed YAML": {map[string]string{"pods.yml": "kind: ["}, exit.Usage, []string{"pods.yml: document 1"}},
		"too deep": {map[string]string{"pods.json": "[[[[[" + pod + "]]]]]"}, exit.Usage,
			[]string{"pods.json: not what kubectl", "lists are in lists"}},
		"a part without": {map[string]string{"pods.json": `{"a":1}` + pod}, exit.Usage,
			[]string{"pods.json: not what kubectl", "a document has no kind"}},
		"something else": {map[string]string{"version.yaml": "a: 1\n"}, 0,
			[]string{"hold no objects", "version.yaml: not what kubectl", `"pods":1`}},
		"empty": {map[string]string{"pods.json": ""}, 0, []string{"hold no objects", "pods.json: the file is empty", `"pods":1`}},
		"comments": {map[string]string{"c.yaml": "# nothing\n---\n"}, 0,
			[]string{"hold no objects", "c.yaml: the file is empty", `"pods":1`}},
		"lines":         {map[string]string{"pods.jsonl": pod + "\n" + pod}, 0, []string{`"pods":2`}},
		"large letters": {map[string]string{"PODS.JSON": pod}, 0, []string{`"pods":2`}},
		"packed by its name": {map[string]string{"pods.json.gz": "\x1f\x8b", "a.log": "x"}, 0,
			[]string{`"files":2,"first":["`, "a.log", "pods.json.gz", "are not read", `"pods":1`}},
	} {
		t.Run(what, func(t *testing.T) {
			t.Chdir(t.TempDir())
			folder(t, c.files)
			log, err := logged(t, "in")
			if exit.Code(err) != c.code {
				t.Fatalf("%v with code %d, want %d", err, exit.Code(err), c.code)
			}
			judge(t, "convert", log, c.want, nil)
		})
	}
}

// folder makes a folder named in with a file of a node and a pod, and more files.
func folder(t *testing.T, files map[string]string) {
	t.Helper()
	if err := os.Mkdir("in", 0o700); err != nil {
		t.Fatal(err)
	}
	file(t, filepath.Join("in", "all.json"), listed)
	for name, text := range files {
		file(t, filepath.Join("in", name), text)
	}
}

// logged makes x.record of files, and returns the log with the error.
func logged(t *testing.T, args ...string) (string, error) {
	t.Helper()
	_, err := convert(t, append([]string{"--log-dir=.", "--log-level=info", "--out", "x.record"}, args...)...)
	log, _ := os.ReadFile("convert.log") // an error may come before it
	if err != nil {
		log = append(log, err.Error()...)
	}
	return string(log), err
}

// Links to files are read, each file once; a named folder may be a link, too. Anything that is not a regular file is not opened.
func TestLinks(t *testing.T) {
	t.Chdir(t.TempDir())
	folder(t, nil)
	file(t, "else.json", strings.NewReplacer(`"n1"`, `"n2"`, `"name":"p"`, `"name":"q"`, `"uid":"u"`, `"uid":"v"`).Replace(listed))
	for _, err := range []error{os.Symlink("../else.json", "in/link.json"), os.Symlink("link.json", "in/again.json"),
		os.Symlink("in", "folder"), syscall.Mkfifo("in/pipe.json", 0o600)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	log, err := logged(t, "folder")
	if err != nil {
		t.Fatal(err)
	}
	judge(t, "convert", log, []string{`"first":["folder/pipe.json"]`, "are not read", `"nodes":2`, `"pods":2`}, nil)
}

// Parts of objects that a record cannot hold as they are get counted and named.
func TestSaidOfObjects(t *testing.T) {
	budget := func(spec string) string {
		return `{"kind":"PodDisruptionBudget","apiVersion":"policy/v1","metadata":{"name":"b","namespace":"x"},"spec":{` + spec + `}}`
	}
	for what, c := range map[string]struct {
		object string
		want   []string
	}{
		"no time": {`{"kind":"Pod","metadata":{"name":"q","namespace":"x","creationTimestamp":null},"spec":{"nodeName":"n1"}}`,
			[]string{`"waiting":0`, "do not say since when", "x/q", `"pods":2`}},
		"time 0001": {`{"kind":"Pod","metadata":{"name":"q","namespace":"x","creationTimestamp":"0001-01-01T00:00:00Z"},"spec":{"nodeName":"n1"}}`, []string{`"waiting":0`, "do not say since when"}},
		"time 1969": {`{"kind":"Pod","metadata":{"name":"q","namespace":"x","creationTimestamp":"1969-01-01T00:00:00Z"},"spec":{"nodeName":"n1"}}`, []string{`"waiting":0`, "do not say since when"}},
		"has ended": {`{"kind":"Pod","metadata":{"name":"q","namespace":"x"},"spec":{"nodeName":"n1"},"status":{"phase":"Succeeded"}}`,
			[]string{`"waiting":0`, `"pods":1`, `"ended":1`}},
		"a clock ahead": {`{"kind":"Pod","metadata":{"name":"q","namespace":"x","creationTimestamp":"2099-01-01T00:00:00Z"},"spec":{"nodeName":"n1"}}` + nodeOf("n2", "") + nodeOf("n3", ""), []string{"which are ignored", `\"x/q\": it has a time of 2099`, `"to":"20`, `"waiting":0`}},
		"no status":     {nodeOf("n2", ""), []string{"is unknown", `\"n2\": it has no status.allocatable`}},
		"a large node":  {nodeOf("n2", `"memory":"24Ti"`), []string{"bounds them", `\"n2\": status.allocatable.memory is 24Ti, want 0 to`}},
		"many cores":    {nodeOf("n2", `"cpu":"12000"`), []string{"bounds them", "status.allocatable.cpu is 12k, want 0 to 10000"}},
		"half a budget": {budget(`"minAvailable":"half"`), []string{`"kind":"PodDisruptionBudget","objects":1`, "x/b"}},
		"a bad selector": {budget(`"selector":{"matchExpressions":[{"key":"a","operator":"Like"}]}`),
			[]string{`"kind":"PodDisruptionBudget","objects":1`, "x/b"}},
	} {
		t.Run(what, func(t *testing.T) {
			t.Chdir(t.TempDir())
			folder(t, map[string]string{"more.json": c.object})
			log, err := logged(t, "in")
			if err != nil {
				t.Fatal(err)
			}
			judge(t, "convert", log, c.want, nil)
		})
	}
}

func nodeOf(name, amounts string) string {
	return `{"kind":"Node","metadata":{"name":"` + name + `"},"status":{"allocatable":{` + amounts + `}}}`
}
