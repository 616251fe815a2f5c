package convert

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	ucli "github.com/urfave/cli/v2"
	"sigs.k8s.io/yaml"

	"gnnsched/cmd/internal/plan"
	"gnnsched/internal/exit"
)

// caseOf describes a folder of testdata/cases: the input files, and the expected messages of convert and plan.
type caseOf struct {
	About     string               `json:"about"`
	Convert   []string             `json:"convert"` // the files, as they are named
	Touch     map[string]time.Time `json:"touch"`   // times of files; others are as old as the test
	Code      int                  `json:"code"`    // exit code of convert
	Says      []string             `json:"says"`    // parts of convert's log or error
	Never     []string             `json:"never"`
	Plan      []string             `json:"plan"` // parts of plan's output; plan runs if there are any
	PlanNever []string             `json:"planNever"`
}

// Each input becomes the right record, or an error or a warning explains its fault.
func TestCases(t *testing.T) {
	cases, err := filepath.Glob("testdata/cases/*")
	if err != nil || len(cases) == 0 {
		t.Fatalf("%v, %v", cases, err)
	}
	for _, from := range cases {
		t.Run(filepath.Base(from), func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join(from, "case.yaml"))
			if err != nil {
				t.Fatal(err)
			}
			var c caseOf
			if err := yaml.UnmarshalStrict(text, &c); err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
				t.Fatal(err)
			}
			for name, at := range c.Touch {
				if err := os.Chtimes(filepath.Join(dir, name), at, at); err != nil {
					t.Fatal(err)
				}
			}
			c.check(t, dir)
		})
	}
}

// check runs the commands in a copy of the case's folder.
func (c *caseOf) check(t *testing.T, dir string) {
	t.Helper()
	t.Chdir(dir)
	log, err := logged(t, c.Convert...)
	if code := exit.Code(err); code != c.Code {
		t.Fatalf("%s: %v with code %d, want %d", c.About, err, code, c.Code)
	}
	judge(t, "convert", log, c.Says, c.Never)
	if len(c.Plan) == 0 {
		return
	}
	var out bytes.Buffer
	app := &ucli.App{
		Name: "gnnsched", Commands: []*ucli.Command{plan.Command()}, Writer: &out, ErrWriter: &bytes.Buffer{},
		ExitErrHandler: func(*ucli.Context, error) {},
	}
	if err := app.RunContext(context.Background(), []string{"gnnsched", "plan", "--log-dir=", "--log-level=error", "x.record"}); err != nil {
		t.Fatalf("plan: %v", err)
	}
	judge(t, "plan", out.String(), c.Plan, c.PlanNever)
}

func judge(t *testing.T, command, got string, says, never []string) {
	t.Helper()
	for _, s := range says {
		if !strings.Contains(got, s) {
			t.Errorf("%s does not say %q:\n%s", command, s, got)
		}
	}
	for _, s := range never {
		if strings.Contains(got, s) {
			t.Errorf("%s says %q:\n%s", command, s, got)
		}
	}
}
