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

func TestMachines(t *testing.T) {
	dir := t.TempDir()
	from, to := file(t, filepath.Join(dir, "116.csv"), gwaText), filepath.Join(dir, "out.yaml")
	if printed, err := convert(t, "--out", to, from); err != nil || printed != "" {
		t.Fatalf("%q, %v", printed, err)
	}
	text, err := os.ReadFile(to)
	if err != nil {
		t.Fatal(err)
	}
	shapes, err := workload.ReadShapes(to, text)
	if err != nil || len(shapes) != 1 || shapes[0].Name != "vm-116" || shapes[0].Requests.MilliCPU != 4000 || shapes[0].Usage == nil {
		t.Errorf("shapes %+v, %v", shapes, err)
	}
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	z.Write([]byte(gwaText))
	z.Close()
	if err := os.Remove(from); err != nil {
		t.Fatal(err)
	}
	file(t, from+".gz", packed.String())
	printed, err := convert(t, dir) // the folder has this CSV file, and out.yaml, which is not one
	if err != nil || printed != string(text) {
		t.Errorf("printed %q, %v", printed, err)
	}
}

func TestRefuses(t *testing.T) {
	dir := t.TempDir()
	good := file(t, filepath.Join(dir, "vms.csv"), gwaText)
	bad := file(t, filepath.Join(dir, "bad.csv"), "a,b\n1,2\n")
	notPacked := file(t, filepath.Join(dir, "vms.csv.gz"), gwaText)
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
		{[]string{bad}, `column "Timestamp [ms]" is missing`},
		{[]string{notPacked}, "gzip"},
		{[]string{"--format", "xls", good}, `no format is called "xls"`},
		{[]string{"--format", "azure", good}, "vms.csv:1: the line has 1 cells, want [5 11]"},
		{[]string{"--step", "0", good}, "--step 0 is not"},
		{[]string{"--limit", "-1", good}, "must be 0 or more"},
		{[]string{"--out", filepath.Join(dir, "no", "out.yaml"), good}, "no such file"},
	} {
		_, err := convert(t, c.args...)
		if err == nil || !strings.Contains(err.Error(), c.want) || exit.Code(err) != exit.Usage {
			t.Errorf("%v: %v with code %d, want %q", c.args, err, exit.Code(err), c.want)
		}
	}
}
