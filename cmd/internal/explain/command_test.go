package explain

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	ucli "github.com/urfave/cli/v2"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"gnnsched/internal/exit"
	"gnnsched/internal/fatal"
	"gnnsched/scheduler/decision"
	"gnnsched/scheduler/shadow"
	"gnnsched/workload/record"
)

func call(args ...string) (string, error) {
	var out bytes.Buffer
	app := &ucli.App{Writer: &out, ErrWriter: &out, Commands: []*ucli.Command{Command()}, ExitErrHandler: func(*ucli.Context, error) {}}
	err := app.RunContext(context.Background(), append([]string{"gnnsched", "explain"}, args...))
	return out.String(), err
}

func only(node string, at int64) decision.Decision {
	return decision.Decision{
		Profile: "gnn", Pod: decision.Pod{Namespace: "shop", Name: "web-0", UID: "u"}, At: time.Unix(at, 0), Node: node, Feasible: 1,
		Preferred: 1, Bound: true,
	}
}

// The newest decision in a file is explained, torn lines or not. A file of something else is an error with its place.
func TestTrace(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "decisions.jsonl")
	var text []byte
	for i, node := range []string{"a", "b"} {
		d := only(node, int64(1000+i))
		line := fatal.Value(json.Marshal(decision.RecordOf(&d)))(t)
		text = append(append(append(text, line...), '\n'), `{"schema":1,"po`+"\n"...)
	}
	fatal.If(t, os.WriteFile(path, text, 0o600))
	if out, err := call("--trace", path, "-n", "shop", "pod/web-0"); err != nil || !strings.Contains(out, "b was the only feasible node") {
		t.Errorf("%s: %v", out, err)
	}
	if out, err := call("--trace", path, "-n", "shop", "-o", "json", "pod", "web-0"); err != nil || !strings.Contains(out, `"node": "b"`) ||
		!json.Valid([]byte(out)) {
		t.Errorf("%s: %v", out, err)
	}
	// For a share, --checkpoint names the canary's weights, which do not decide about the rest.
	if out, err := call("--trace", path, "-n", "shop", "--checkpoint", "mine.safetensors", "pod/web-0"); err != nil ||
		!strings.Contains(out, "b was the only feasible node") {
		t.Errorf("no weights decided: %s: %v", out, err)
	}
	other := filepath.Join(dir, "other")
	fatal.If(t, os.WriteFile(other, []byte("name,cpu\nx,1\n"), 0o600))
	for want, args := range map[string][]string{
		"there is no decision about pod shop/none": {"--trace", path, "-n", "shop", "pod/none"},
		"other:2: no record of a decision":         {"--trace", other, "pod/none"},
		"no such file":                             {"--trace", filepath.Join(dir, "none"), "pod/x"},
		"say which pod":                            {"web-0"},
		"begins with https":                        {"--server", "http://127.0.0.1:1", "pod/x"},
		"must prove who it is":                     {"--server", "https://10.0.0.1:1", "pod/x"},
	} {
		if _, err := call(args...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", args, err, want)
		}
	}
}

// A running scheduler's book is requested with the token. The token is not sent after a redirect, and a huge or foreign answer does not
// count as a decision.
func TestServer(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	fatal.If(t, os.WriteFile(token, []byte("secret\n"), 0o600))
	book := decision.NewBook(3, nil)
	book.Decided(only("a", 1000))
	answer := http.HandlerFunc(book.ServeHTTP)
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer secret" || r.URL.Path != decision.DebugPath {
			t.Errorf("%s with %q", r.URL, r.Header.Get("Authorization"))
		}
		answer(w, r)
	}))
	defer s.Close()
	args := []string{"--server", s.URL, "--token-file", token, "-n", "shop", "pod/web-0"}
	if out, err := call(args...); err != nil || !strings.Contains(out, "a was the only feasible node") {
		t.Errorf("%s: %v", out, err)
	}
	for want, with := range map[string]http.HandlerFunc{
		"answers 302": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://127.0.0.1:1/", http.StatusFound)
		},
		"no page":                  func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("<html>")) },
		"records no decisions":     func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) },
		"refuses the token":        func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) },
		"no record of a decision":  func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte(`{"records":[{}]}`)) },
		"no page of decisions: un": func(w http.ResponseWriter, _ *http.Request) { w.Write(bytes.Repeat([]byte("["), 5<<20)) },
	} {
		answer = with
		if _, err := call(args...); err == nil || !strings.Contains(err.Error(), strings.TrimSuffix(want, ": un")) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// The newest event of a move is told, and no other event.
func TestWhyMoved(t *testing.T) {
	event := func(pod, reason, message string, at int64) *v1.Event {
		return &v1.Event{
			ObjectMeta:     metav1.ObjectMeta{Namespace: "shop", Name: message},
			InvolvedObject: v1.ObjectReference{Name: pod}, Reason: reason, Message: message, LastTimestamp: metav1.NewTime(time.Unix(at, 0)),
		}
	}
	c := fake.NewClientset(event("web-0", "Moved", "old", 1), event("web-0", "Moved", "new\x1b", 2), event("web-0", "Scheduled", "other", 3),
		event("web-1", "Moved", "else", 4))
	for pod, want := range map[string]string{"web-0": "new", "web-1": "else\n", "web-2": ""} {
		got := whyMoved(t.Context(), c, decision.Query{Namespace: "shop", Pod: pod})
		if !strings.HasPrefix(got, want) || strings.Contains(got, "\x1b") || (got == "") != (want == "") {
			t.Errorf("%s: %q, want %q", pod, got, want)
		}
	}
}

// last asks a server with the flags of a command line.
func last(q decision.Query, args ...string) (records []decision.Record, err error) {
	app := &ucli.App{Flags: serverFlags(), ExitErrHandler: func(*ucli.Context, error) {}, Action: func(c *ucli.Context) error {
		client, err := newClient(c)
		if err == nil {
			records, err = client.Last(c.Context, q)
		}
		return err
	}}
	return records, app.RunContext(context.Background(), append([]string{"test"}, args...))
}

func TestLast(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	fatal.If(t, os.WriteFile(token, []byte("secret"), 0o600))
	book := decision.NewBook(100, nil)
	for i := range 5 {
		book.Decided(decision.Decision{
			Number: uint64(i), Pod: decision.Pod{Namespace: "shop", Name: fmt.Sprint("p-", i)}, At: time.Unix(int64(i), 0), Node: "a\x1b[2J",
		})
	}
	s := httptest.NewTLSServer(book)
	defer s.Close()
	for _, c := range []struct {
		q    decision.Query
		want []string
	}{
		{decision.Query{}, []string{"p-4", "p-3", "p-2", "p-1", "p-0"}},
		{decision.Query{Limit: 2}, []string{"p-4", "p-3"}},
		{decision.Query{Namespace: "shop", Pod: "p-1"}, []string{"p-1"}},
		{decision.Query{Namespace: "shop", Pod: "none"}, nil},
	} {
		got, err := last(c.q, "--server", s.URL+"/", "--token-file", token)
		if err != nil || len(got) != len(c.want) {
			t.Fatalf("%+v: %d records, %v", c.q, len(got), err)
		}
		for i, r := range got {
			if r.Pod != c.want[i] || r.Node != "a[2J" {
				t.Errorf("%+v: %s on %q", c.q, r.Pod, r.Node)
			}
		}
	}
	other := httptest.NewServer(http.NotFoundHandler())
	defer other.Close()
	for address, code := range map[string]int{strings.Replace(other.URL, "http", "https", 1): exit.Usage,
		"https://127.0.0.1:1": exit.Unreachable} {
		if _, err := last(decision.Query{}, "--server", address, "--token-file", token); exit.Code(err) != code {
			t.Errorf("%s: %v", address, err)
		}
	}
	s.Config.Handler = http.NotFoundHandler()
	if _, err := last(decision.Query{}, "--server", s.URL, "--token-file", token); exit.Code(err) != exit.Usage {
		t.Errorf("a scheduler without a book: %v", err)
	}
	s.Close()
	if _, err := last(decision.Query{}, "--server", s.URL, "--token-file", token); exit.Code(err) != exit.Unreachable {
		t.Errorf("no scheduler: %v", err)
	}
}

// A server that sends more than was asked for does not break who asked, and a replaced token is used.
func TestHostileAnswerAndNewToken(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	write := func(text string) {
		fatal.If(t, os.WriteFile(token, []byte(text), 0o600))
	}
	write("first")
	book := decision.NewBook(100, nil)
	for i := range 50 {
		book.Decided(decision.Decision{
			Number: uint64(i), Pod: decision.Pod{Namespace: "shop", Name: fmt.Sprint("p-", i)}, At: time.Unix(int64(i), 0), Node: "a",
		})
	}
	var got []string
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = append(got, r.Header.Get("Authorization"))
		r.URL.RawQuery = "" // the limit is ignored
		book.ServeHTTP(w, r)
	}))
	defer s.Close()
	app := &ucli.App{Flags: serverFlags(), Action: func(c *ucli.Context) error {
		client, err := newClient(c)
		if err != nil {
			return err
		}
		for _, next := range []string{"second", "third"} {
			found, err := client.Last(c.Context, decision.Query{Limit: 3})
			if err != nil || len(found) != 3 {
				t.Errorf("%d records, %v", len(found), err)
			}
			write(next)
		}
		return nil
	}}
	fatal.If(t, app.Run([]string{"test", "--server", s.URL, "--token-file", token}))
	if len(got) != 2 || got[0] != "Bearer first" || got[1] != "Bearer second" {
		t.Errorf("tokens %v", got)
	}
}

// A shadow scheduler reports its findings. For another scheduler, or an answer of another form, the error says so.
func TestShadow(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	fatal.If(t, os.WriteFile(token, []byte("secret"), 0o600))
	answer := `{"version": "gnnsched.shadow/v1", "profile": "gnn", "agreement": 0.5, "recent": [{"pod": "shop/p"}]}`
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != shadow.Path || r.Header.Get("Authorization") != "Bearer secret" || answer == "" {
			http.NotFound(w, r)
			return
		}
		fmt.Fprint(w, answer)
	}))
	defer s.Close()
	ask := func() (found shadow.Live, err error) {
		app := &ucli.App{Flags: serverFlags(), ExitErrHandler: func(*ucli.Context, error) {}, Action: func(c *ucli.Context) error {
			client, err := newClient(c)
			if err == nil {
				found, err = client.Shadow(c.Context)
			}
			return err
		}}
		return found, app.Run([]string{"test", "--server", s.URL, "--token-file", token})
	}
	if l, err := ask(); err != nil || l.Profile != "gnn" || l.Agreement != 0.5 || len(l.Recent) != 1 {
		t.Errorf("%+v, %v", l, err)
	}
	for _, c := range []struct{ answer, says string }{
		{"", "in the shadow of no other one"}, {`{"version": "gnnsched.shadow/v9"}`, "gnnsched.shadow/v9"}, {"x", "not a report"},
	} {
		answer = c.answer
		if _, err := ask(); exit.Code(err) != exit.Usage || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%q: %v", c.answer, err)
		}
	}
}

// A pod of a recorded cluster is explained whichever scheduler placed it. The profile and the pod must be such that there is something
// to explain.
func TestRecord(t *testing.T) {
	const t0 = 1_700_000_000_000
	dir := filepath.Join(t.TempDir(), "r")
	w := fatal.Value(record.Create(dir, record.Options{}))(t)
	for _, n := range []string{"a", "b"} {
		w.Node(record.Node{Name: n, From: t0, MilliCPU: 4000, Memory: 8 << 30, Pods: 10})
	}
	one := record.Pod{
		UID: "0", Namespace: "shop", Name: "db-0", MilliCPU: 1000, Memory: 1 << 30, Arrived: t0 + 1000, Bound: t0 + 2000, Node: "b",
		Scheduler: "default-scheduler",
	}
	two := one
	two.UID, two.Name, two.Arrived, two.Bound, two.Node, two.Claims = "1", "web-0", t0+3000, t0+4000, "b", `["data"]`
	big := one
	big.UID, big.Name, big.MilliCPU, big.Bound, big.Node = "2", "big", 9000, 0, ""
	for _, p := range []record.Pod{one, two, big} {
		w.Pod(p)
	}
	w.Run(record.Run{ID: "1", From: t0, To: t0 + 60_000})
	fatal.Value(w.Close())(t)
	for want, args := range map[string][]string{
		"The pod would go to a, and is really on b.\nNetwork gnn":        {"pod/web-0"},
		"note: the record does not say where the pod's volumes are":      {"pod/web-0"},
		"2023-11-14 22:13:24 UTC, scheduler linear in the shadow":        {"--profile", "linear", "pod/web-0"},
		"The pod really got no node either.\nIt would find no node: 0/2": {"pod/big"},
	} {
		if out, err := call(append([]string{"--record", dir, "-n", "shop"}, args...)...); err != nil || !strings.Contains(out, want) {
			t.Errorf("%q: %v\n%s", args, err, out)
		}
	}
	for want, args := range map[string][]string{
		"has no pod shop/none":                {"--record", dir, "-n", "shop", "pod/none"},
		"has no network or policy":            {"--record", dir, "-n", "shop", "-p", "default", "pod/web-0"},
		"--trace has no effect with --record": {"--record", dir, "--trace", "x", "pod/web-0"},
		"--profile has no effect without":     {"--profile", "linear", "pod/web-0"},
		"read the record":                     {"--record", filepath.Join(dir, "none"), "pod/web-0"},
	} {
		if _, err := call(args...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", args, err, want)
		}
	}
}
