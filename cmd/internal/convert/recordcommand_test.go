package convert

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	ucli "github.com/urfave/cli/v2"

	"gnnsched/internal/exit"
	"gnnsched/workload/record"
)

// runCommand runs the command and returns its output.
func runCommand(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	app := &ucli.App{
		Name: "gnnsched", Commands: []*ucli.Command{RecordCommand()}, Writer: &out, ErrWriter: &out, ExitErrHandler: func(*ucli.Context, error) {},
	}
	err := app.RunContext(context.Background(), append([]string{"gnnsched", "record", "--log-dir=", "--log-level=error"}, args...))
	return out.String(), err
}

func TestWrongFlags(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "r.record")
	for want, args := range map[string][]string{
		"--out is missing":                   nil,
		`unexpected argument "now"`:          {"--out", dir, "now"},
		"--flush 1ms is not 1s to 24h":       {"--out", dir, "--flush", "1ms"},
		"--usage 25h0m0s is not 0":           {"--out", dir, "--usage", "25h"},
		"--keep 1m0s is less than an hour":   {"--out", dir, "--keep", "1m"},
		"--for -1s is negative":              {"--out", dir, "--for", "-1s"},
		"--key-file works with --anonymise ": {"--out", dir, "--key-file", "k"},

		"--prometheus: address must be a URL":                 {"--out", dir, "--prometheus", "prometheus:9090"},
		"--prometheus measures usage":                         {"--out", dir, "--prometheus", "http://p", "--usage", "0"},
		"--prometheus-cert-file works with --prometheus only": {"--out", dir, "--prometheus-cert-file", "k"},
		"certificates for https://p":                          {"--out", dir, "--prometheus", "https://p", "--prometheus-ca-file", "/none"},
		"a token is only sent over https":                     {"--out", dir, "--prometheus", "http://p", "--prometheus-token-file", "t"},
	} {
		if _, err := runCommand(t, args...); err == nil || !strings.Contains(err.Error(), want) || exit.Code(err) != exit.Usage {
			t.Errorf("%v: %v, want %q", args, err, want)
		}
	}
	for _, args := range [][]string{{"--prometheus-token-file", "t"}, {"--prometheus", "http://p", "--usage", "0"}, {"--prometheus", "p"}} {
		_, err := runCommand(t, append(args, "--out", dir)...)
		var with *exit.Error
		if !errors.As(err, &with) || with.Hint == "" {
			t.Errorf("%v: no hint in %v", args, err)
		}
	}
	if record.Is(dir) {
		t.Error("a wrong flag made a record")
	}
}

func TestPrintRBAC(t *testing.T) {
	all, err := runCommand(t, "--print-rbac")
	if err != nil || !strings.Contains(all, "metrics.k8s.io") || !strings.Contains(all, "name: gnnsched-record") {
		t.Errorf("%s, %v", all, err)
	}
	for _, args := range [][]string{{"--usage", "0"}, {"--prometheus", "http://p"}} {
		if less, err := runCommand(t, append(args, "--print-rbac")...); err != nil || strings.Contains(less, "metrics.k8s.io") ||
			!strings.Contains(less, "pods") {
			t.Errorf("with %v: %s, %v", args, less, err)
		}
	}
}

// A record goes on with the key and the kind of names that it began with.
func TestResume(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "r.record")
	w, err := record.Create(dir, record.Options{})
	if err != nil {
		t.Fatal(err)
	}
	w.Pod(record.Pod{UID: "there", Name: "there", Arrived: 1000})
	w.Pod(record.Pod{UID: "gone", Name: "gone", Arrived: 1000, Ended: 2000, End: record.Deleted})
	w.Run(record.Run{ID: "1", Source: "live", From: 1000, To: 3000, Anonymised: true})
	if _, err := w.Close(); err != nil {
		t.Fatal(err)
	}
	s := &recordRun{dir: dir}
	if err := s.resume(true); err != nil || len(s.open.Pods) != 1 || s.open.Pods[0].UID != "there" {
		t.Errorf("open %+v, %v", s.open, err)
	}
	if err := s.resume(false); exit.Code(err) != exit.Usage || !strings.Contains(err.Error(), "anonymised true, now false") {
		t.Errorf("with other names: %v", err)
	}
	if _, err := keyOf(dir+".key", true); err == nil {
		t.Error("a new key was made for a record that goes on")
	}
	made, err := keyOf(dir+".key", false)
	if err != nil || len(made) != 32 {
		t.Fatalf("key of %d bytes, %v", len(made), err)
	}
	if read, err := keyOf(dir+".key", true); err != nil || !bytes.Equal(read, made) {
		t.Errorf("the key was not kept: %v", err)
	}
}
