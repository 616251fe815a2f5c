package convert

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"gnnsched/internal/exit"
	"gnnsched/internal/promapi"
	"gnnsched/workload/record"
	"gnnsched/workload/record/history"
	"gnnsched/workload/record/history/historytest"
)

// The record of a history, cut off by a server that went away, is gone on with by the same command.
func TestRecordOfPrometheus(t *testing.T) {
	var away atomic.Bool
	away.Store(true)
	s := historytest.Server(t, func(w http.ResponseWriter, q url.Values) bool {
		cut := away.Load() && strings.Contains(q.Get("query"), "kube_pod_created") && q.Get("time") == fmt.Sprint(historytest.End.Unix())
		if cut {
			w.WriteHeader(http.StatusUnprocessableEntity)
			_, _ = w.Write([]byte(`{"status":"error","errorType":"execution","error":"too many samples"}`))
		}
		return cut
	})
	to := filepath.Join(t.TempDir(), "a.record")
	args := []string{
		"--out", to, "--prometheus", s.URL, "--from", historytest.Begin.Format(time.RFC3339), "--to", historytest.End.Format(time.RFC3339),
		"--chunk", historytest.Chunk.String(), "--usage", historytest.Usage.String(),
	}
	_, err := convert(t, args...)
	if exit.Code(err) != exit.Unreachable ||
		!strings.Contains(err.Error(), "the record is complete until "+historytest.Begin.Add(40*time.Minute).Format(time.RFC3339)) {
		t.Fatalf("cut off: %v", err)
	}
	away.Store(false)
	for range 2 { // the second time, nothing is left to do
		if _, err := convert(t, args...); err != nil {
			t.Fatal(err)
		}
	}
	r, err := record.Open(to)
	if err != nil {
		t.Fatal(err)
	}
	pods, err := r.Pods()
	if err != nil || len(pods) != 5 {
		t.Errorf("%d pods, %v", len(pods), err)
	}
	runs, err := r.Runs()
	if err != nil || len(runs) != 2 || runs[0].To != runs[1].From || runs[1].To != historytest.End.UnixMilli() || runs[0].Program != "v1.2.3" {
		t.Errorf("runs %+v, %v", runs, err)
	}
	other := filepath.Join(t.TempDir(), "b.record")
	if _, err := convert(t, "--out", other, file(t, filepath.Join(t.TempDir(), "1.json"), listed)); err != nil {
		t.Fatal(err)
	}
	args[1] = other
	if _, err := convert(t, args...); exit.Code(err) != exit.Usage || !strings.Contains(err.Error(), "of the source kubectl") {
		t.Errorf("a record of kubectl: %v", err)
	}
}

// Whose fault it is decides the exit code.
func TestHistoryError(t *testing.T) {
	stopped, stop := context.WithCancel(t.Context())
	stop()
	for _, c := range []struct {
		ctx  context.Context
		err  error
		code int
		hint string
	}{
		{t.Context(), errors.New("no space left on device"), exit.Internal, "make room on the disk"},
		{t.Context(), history.Unanswered{Err: errors.New("refused")}, exit.Unreachable, "must answer at this URL"},
		{t.Context(), history.Unanswered{Err: x509.UnknownAuthorityError{}}, exit.Usage, "into --ca-file"},
		{t.Context(), history.Unanswered{Err: syscall.ECONNREFUSED}, exit.Unreachable, "host and port in --prometheus"},
		{t.Context(), fmt.Errorf("x: %w", history.Unanswered{Err: promapi.Refused{Why: "too many"}}), exit.Unreachable, "a shorter --chunk"},
		{stopped, history.Unanswered{Err: context.Canceled}, exit.Interrupted, ""},
	} {
		err := historyError(c.ctx, "http://p", c.err)
		var with *exit.Error
		if exit.Code(err) != c.code || errors.As(err, &with) && !strings.Contains(with.Hint, c.hint) {
			t.Errorf("%v: %v with code %d", c.err, err, exit.Code(err))
		}
	}
}

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
		{[]string{to, from, "--token-file", file(t, filepath.Join(dir, "token"), "secret"), "--prometheus", s.URL}, exit.Unreachable,
			"too many samples"},
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
