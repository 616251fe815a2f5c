// Package historytest is test support: a Prometheus server with a made-up history of an hour, which answers what a real one
// answered. A test of package history asks a real one again where it is installed, and rewrites the answers with -update.
package historytest

import (
	_ "embed"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"
)

//go:embed answers.json
var answers []byte

// Begin is when the history begins. It is read in chunks of Chunk, with usage every Usage, until End.
var (
	Begin = time.Unix(1_770_000_000, 0).UTC()
	End   = Begin.Add(time.Hour)
)

// How the recorded queries ask.
const (
	Chunk = 20 * time.Minute
	Usage = 5 * time.Minute
)

// Key names a query among the answers.
func Key(path string, form url.Values) string {
	return strings.TrimPrefix(path, "/api/v1/") + " " + form.Get("query") + " " + form.Get("time") + form.Get("start")
}

// Server answers queries until the test ends. answer, if not nil, is asked first; it returns true if it has answered.
func Server(t *testing.T, answer func(w http.ResponseWriter, query url.Values) bool) *httptest.Server {
	t.Helper()
	var all map[string]json.RawMessage
	if err := json.Unmarshal(answers, &all); err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := r.ParseForm(); err != nil {
			t.Error(err)
		}
		if answer != nil && answer(w, r.Form) {
			return
		}
		text, ok := all[Key(r.URL.Path, r.Form)]
		if !ok {
			t.Errorf("no answer is recorded to %q", Key(r.URL.Path, r.Form))
			w.WriteHeader(http.StatusNotFound)
			return
		}
		_, _ = w.Write(text)
	}))
	t.Cleanup(s.Close)
	return s
}
