package explain

import (
	"bytes"
	"context"
	"encoding/json"
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

	"gnnsched/scheduler/decision"
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
		line, err := json.Marshal(decision.RecordOf(&d))
		if err != nil {
			t.Fatal(err)
		}
		text = append(append(append(text, line...), '\n'), `{"schema":1,"po`+"\n"...)
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := call("--trace", path, "-n", "shop", "pod/web-0"); err != nil || !strings.Contains(out, "b was the only feasible node") {
		t.Errorf("%s: %v", out, err)
	}
	// For a share, --checkpoint names the canary's weights, which do not decide about the rest.
	if out, err := call("--trace", path, "-n", "shop", "--checkpoint", "mine.safetensors", "pod/web-0"); err != nil ||
		!strings.Contains(out, "b was the only feasible node") {
		t.Errorf("no weights decided: %s: %v", out, err)
	}
	other := filepath.Join(dir, "other")
	if err := os.WriteFile(other, []byte("name,cpu\nx,1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
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
	if err := os.WriteFile(token, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
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
