package main

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	ucli "github.com/urfave/cli/v2"

	"gnnsched/internal/cli"
	"gnnsched/internal/exit"
)

func TestWindow(t *testing.T) {
	at := func(text string) time.Time {
		d, err := time.Parse(time.DateTime, text)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	for _, c := range []struct {
		window, now string
		want        time.Duration
	}{
		{"", "2026-03-01 12:00:00", 0},
		{"02:00-05:00", "2026-03-01 02:00:00", 0},
		{"02:00-05:00", "2026-03-01 04:59:59", 0},
		{"02:00-05:00", "2026-03-01 05:00:00", 21 * time.Hour},
		{"02:00-05:00", "2026-03-01 01:30:00", 30 * time.Minute},
		{"22:00-05:00", "2026-03-01 23:00:00", 0},
		{"22:00-05:00", "2026-03-01 03:00:00", 0},
		{"22:00-05:00", "2026-03-01 12:00:00", 10 * time.Hour},
		{"00:00-00:30", "2026-02-28 23:59:00", time.Minute},
	} {
		w, err := parseWindow(c.window)
		if got := w.until(at(c.now)); err != nil || got != c.want {
			t.Errorf("%s at %s: %v, %v", c.window, c.now, got, err)
		}
	}
}

func TestFlags(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"--moves many", "--moves"},
		{"--moves 1.5", "--moves"},
		{"--moves -1", "--moves"},
		{"--moves NaN", "--moves"},
		{"--moves 200%", "--moves"},
		{"--memory x", "--memory"},
		{"--for train-0", "namespace/name"},
		{"--every 1h", "without --apply"},
		{"--yes", "without --apply"},
		{"--search greedy --for ml/train-0", "--search has no effect with --for"},
		{"--objective balance --for ml/train-0", "--objective has no effect with --for"},
		{"--objective speed", "no term is called"},
		{"--objective throttled", "measured after a move"},
		{"--between 1-2 --apply", "--between"},
		{"--between 02:00-02:00 --apply", "--between"},
		{"--apply prod.record", "not of the record"},
		{"--wait 0s", "--wait"},
		{"-o xml", "--output"},
		{"no.record", "read the record"},
		{"--print-rbac --apply", ""},
	} {
		var out bytes.Buffer
		command := defragCommand()
		app := &ucli.App{Name: "gnnsched", Commands: []*ucli.Command{command}, Writer: &out, ErrWriter: &out}
		code := cli.Run(app, append([]string{"gnnsched", "defrag", "--log-dir="}, strings.Fields(c.args)...))
		if c.want == "" && code == 0 && strings.Contains(out.String(), "pods/eviction") {
			continue
		}
		if code != exit.Usage || c.want != "" && !strings.Contains(out.String(), c.want) {
			t.Errorf("%s: code %d\n%s", c.args, code, &out)
		}
	}
}

// defrag --apply asks before it moves pods of a cluster that is not simulated. A user without rights ends every command with one code.
func TestAsksBeforeMoves(t *testing.T) {
	nodes, forbidden := `{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":{},"items":[{"metadata":{"name":"n1"}}]}`,
		`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"nodes is forbidden: `+
			`User \"jane\" cannot list resource \"nodes\" in API group \"\" at the cluster scope"}`
	answer := func(path string) (int, string) { return http.StatusOK, nodes }
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			t.Errorf("%s %s", r.Method, r.URL)
		}
		code, text := answer(r.URL.Path)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		fmt.Fprint(w, text)
	}))
	defer s.Close()
	k := file(t, "kubeconfig", strings.ReplaceAll(nobodyListens, "https://127.0.0.1:1", s.URL))
	code, _, stderr := command("gnnsched", "defrag", "--log-dir=", "--apply", "--kubeconfig", k)
	if want := "cluster at " + s.URL + " is not simulated: 1 of its 1 nodes are real"; code != exit.Usage ||
		!strings.Contains(stderr, want) || !strings.Contains(stderr, "look without --apply") {
		t.Errorf("code %d, want %q in %s", code, want, stderr)
	}
	answer = func(path string) (int, string) { return http.StatusForbidden, forbidden } // of /readyz too, which is no reason to end
	for _, args := range [][]string{{"defrag"}, {"defrag", "--apply"}, {"runsim", "--csv="}, {"cleancluster"}, {"ktop", "--once"}} {
		args = append(args, "--log-dir=", "--kubeconfig", k)
		if code, _, stderr := command("gnnsched", args...); code != exit.Kubeconfig || !strings.Contains(stderr, "cannot list resource") {
			t.Errorf("%v: code %d, %s", args, code, stderr)
		}
	}
	if code, stdout, _ := command("gnnsched", "version"); code != exit.OK || !strings.HasPrefix(stdout, "gnnsched version dev, Kubernetes v1.") {
		t.Errorf("code %d: %s", code, stdout)
	}
}
