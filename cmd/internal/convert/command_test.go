package convert

import (
	"bytes"
	"compress/gzip"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	ucli "github.com/urfave/cli/v2"

	"gnnsched/internal/exit"
	"gnnsched/workload"
	"gnnsched/workload/trace"
)

// convert runs the command and returns its output.
func convert(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	app := &ucli.App{
		Name: "gnnsched", Version: "v1.2.3", Commands: []*ucli.Command{Command()}, Writer: &out, ErrWriter: &out,
		ExitErrHandler: func(*ucli.Context, error) {},
	}
	err := app.RunContext(context.Background(), append([]string{"gnnsched", "convert", "--log-dir=", "--log-level=error"}, args...))
	return out.String(), err
}

func file(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

const vms = "vm,cores,cpu_mhz,memory_mb,cpu_permille\n116,4,11704,6213632,14 1000\n242,8,20800,40802304,1 2\n"

func TestMachines(t *testing.T) {
	dir := t.TempDir()
	from, to := file(t, filepath.Join(dir, "vms.csv"), vms), filepath.Join(dir, "out.yaml")
	if printed, err := convert(t, "--out", to, from); err != nil || printed != "" {
		t.Fatalf("%q, %v", printed, err)
	}
	text, err := os.ReadFile(to)
	if err != nil {
		t.Fatal(err)
	}
	shapes, err := workload.ReadShapes(to, text)
	if err != nil || len(shapes) != 2 || shapes[0].Name != "vm-116" || shapes[0].Requests.MilliCPU != 4000 || shapes[0].Usage == nil {
		t.Errorf("shapes %+v, %v", shapes, err)
	}
	printed, err := convert(t, dir) // the folder has this CSV file, and out.yaml, which is not one
	if err != nil || printed != string(text) {
		t.Errorf("printed %q, %v", printed, err)
	}
}

func TestJobsInAGzipFile(t *testing.T) {
	dir := t.TempDir()
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	z.Write([]byte("arrival_s,lifetime_s,cores,cpu_mean_permille,cpu_max_permille\n7,3600,2,1000,1000\n9,60,2,1000,1000\n"))
	z.Close()
	from := file(t, filepath.Join(dir, "jobs.csv.gz"), packed.String())
	printed, err := convert(t, "--no-requests", "--limit", "1", from)
	if err != nil {
		t.Fatal(err)
	}
	f, err := trace.Auto.Read(strings.NewReader(printed), "out")
	if err != nil || len(f.Arrivals) != 1 {
		t.Fatalf("%+v, %v", f.Arrivals, err)
	}
	s := f.Arrivals[0].Deployment.Shape
	if s.Requests.MilliCPU != 0 || s.Usage == nil || s.Usage.Work != 7200 {
		t.Errorf("shape %+v", s)
	}
}

func TestRefuses(t *testing.T) {
	dir := t.TempDir()
	good := file(t, filepath.Join(dir, "vms.csv"), vms)
	bad := file(t, filepath.Join(dir, "bad.csv"), "a,b\n")
	notPacked := file(t, filepath.Join(dir, "vms.csv.gz"), vms)
	if err := os.Mkdir(filepath.Join(dir, "empty"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "name the files"},
		{[]string{filepath.Join(dir, "none.csv")}, "no such file"},
		{[]string{filepath.Join(dir, "empty")}, "the folder has no CSV file"},
		{[]string{bad}, "belongs to no known format"},
		{[]string{notPacked}, "gzip"},
		{[]string{"--format", "xls", good}, `no format is called "xls"`},
		{[]string{"--format", "jobs", good}, "vms.csv:1: the"},
		{[]string{"--part", "half", good}, "choose all, training, judging"},
		{[]string{"--step", "0", good}, "--step 0 is not"},
		{[]string{"--request-percentile", "101", good}, "not 0 to 100"},
		{[]string{"--limit", "-1", good}, "must be 0 or more"},
		{[]string{"--out", filepath.Join(dir, "no", "out.yaml"), good}, "no such file"},
	} {
		_, err := convert(t, c.args...)
		if err == nil || !strings.Contains(err.Error(), c.want) || exit.Code(err) != exit.Usage {
			t.Errorf("%v: %v with code %d, want %q", c.args, err, exit.Code(err), c.want)
		}
	}
}
