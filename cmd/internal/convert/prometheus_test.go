package convert

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"gnnsched/internal/exit"
)

func TestRecordOfPrometheusRefuses(t *testing.T) {
	var token atomic.Value
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token.Store(r.Header.Get("Authorization"))
		w.WriteHeader(http.StatusUnprocessableEntity)
		_, _ = w.Write([]byte(`{"status":"error","error":"too many samples"}`))
	}))
	defer s.Close()
	dir := t.TempDir()
	to, from := "--out="+filepath.Join(dir, "a.record"), "--from=2026-03-01T00:00:00Z"
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{to, from, "--token-file", file(t, filepath.Join(dir, "token"), "secret"), "--prometheus", s.URL}, exit.Unreachable, "too many samples"},
		{[]string{to, "--prometheus", s.URL}, exit.Usage, "needs --from"},
		{[]string{to, "--prometheus", s.URL, "--from", "noon"}, exit.Usage, `"noon" is no time`},
		{[]string{to, from, "--prometheus", s.URL, "--to", "2026-02-01T00:00:00Z"}, exit.Usage, "--to is not after --from"},
		{[]string{to, from, "--prometheus", s.URL, "--chunk", "1s"}, exit.Usage, "--chunk 1s"},
		{[]string{to, from, "--prometheus", s.URL, "--usage", "2h"}, exit.Usage, "--usage 2h0m0s"},
		{[]string{to, from, "--prometheus", "https://a:b@prometheus"}, exit.Usage, "user or a password"},
		{[]string{to, from, "--prometheus", s.URL, "pods.json"}, exit.Usage, "reads no files"},
		{[]string{to, from, "pods.json"}, exit.Usage, "--from goes with --prometheus only"},
		{[]string{from, "--prometheus", s.URL}, exit.Usage, "name a folder with --out"},
	} {
		if _, err := convert(t, c.args...); err == nil || !strings.Contains(err.Error(), c.want) || exit.Code(err) != c.code {
			t.Errorf("%v: %v, want %q", c.args, err, c.want)
		}
	}
	if token.Load() != "Bearer secret" {
		t.Errorf("it sent %v", token.Load())
	}
}
