package trial_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	ucli "github.com/urfave/cli/v2"

	"gnnsched/cmd/internal/trial"
	"gnnsched/internal/exit"
)

func run(t *testing.T, arguments ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	app := &ucli.App{Name: "gnnsched", Version: "v1", Writer: &out, ErrWriter: &out, Commands: []*ucli.Command{trial.Bench("abc")},
		ExitErrHandler: func(*ucli.Context, error) {}}
	err := app.RunContext(t.Context(), append([]string{"gnnsched", "bench"}, arguments...))
	return out.String(), err
}

// The results that it writes are those that the leaderboard reads.
func TestBench(t *testing.T) {
	folder := t.TempDir()
	out, err := run(t, "--split", "test", "--scenario", "tiny", "--policies", "kube-scheduler,random", "--by", "a test", "--results",
		filepath.Join(folder, "r.json"))
	if err != nil || !strings.Contains(out, "Means over 30 paired seeds (40001 to 40030)") {
		t.Fatalf("%s, %v", out, err)
	}
	text, err := os.ReadFile(filepath.Join(folder, "r.json"))
	if err != nil {
		t.Fatal(err)
	}
	var r trial.Results
	if err := json.Unmarshal(text, &r); err != nil || r.Commit != "abc" || r.By != "a test" || r.Machine == "" ||
		!strings.Contains(r.Command, "bench") && r.Command == "" {
		t.Errorf("%+v, %v", r, err)
	}
	if all, err := trial.Read(folder); err != nil || len(all) != 1 || len(all[0].Rows) != 3 {
		t.Errorf("%+v, %v", all, err)
	}
}

func TestWrongFlags(t *testing.T) {
	for _, c := range []struct{ arguments, want string }{
		{"--split train", "neither validation nor test"}, {"--scenario nope", "lacks one of nope"}, {"--results x", "nobody signs"},
		{"--scenario openb", "needs the trace"}, {"--scenario tiny --policies nobody", `"nobody"`}, {"more", "more"},
		{"--scenario tiny --policies random --by me --results no/such/file", "no such file"},
	} {
		if _, err := run(t, strings.Fields(c.arguments)...); exit.Code(err) != exit.Usage || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.arguments, err)
		}
	}
}
