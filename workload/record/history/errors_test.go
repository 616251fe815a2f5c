package history

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"gnnsched/internal/fatal"
	"gnnsched/internal/promapi"
	"gnnsched/workload/record"
)

// An answer of Prometheus other than a history gives an error with the next step; failing queries are retried.
func TestHistoryErrors(t *testing.T) {
	for want, answer := range map[string]struct {
		status int
		body   string
		asked  int // at the first query
	}{
		"kube_node_info: server error: 503": {503, "", tries},
		"query timed out":                   {503, `{"status":"error","error":"query timed out"}`, tries},
		"client error: 429":                 {429, `{"error":"slow down"}`, tries},
		"too many samples": {422,
			`{"status":"error","errorType":"execution","error":"query processing would load too many samples into memory"}`, 1},
		"no series kube_pod_info from 2026-02-02T02": {200, `{"status":"success","data":{"resultType":"vector","result":[]}}`, 0},
		"not an answer of Prometheus":                {200, "<html>", tries},
	} {
		asked := 0
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			asked++
			w.WriteHeader(answer.status)
			_, _ = w.Write([]byte(answer.body))
		}))
		client, err := promapi.New(promapi.Server{Address: s.URL})
		fatal.If(t, err)
		w, err := record.Create(t.TempDir(), record.Options{})
		fatal.If(t, err)
		c := config(client, w)
		c.Usage = 0
		_, err = Read(t.Context(), c)
		if err == nil || !strings.Contains(err.Error(), want) || answer.asked > 0 && asked != answer.asked {
			t.Errorf("%v after %d queries, want %q", err, asked, want)
		}
		if _, err := w.Close(); err != nil {
			t.Error(err)
		}
		client.HTTP.CloseIdleConnections()
		s.Close()
	}
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // so that the server notices when the client leaves
		<-r.Context().Done()
	}))
	defer silent.Close()
	client, err := promapi.New(promapi.Server{Address: silent.URL})
	fatal.If(t, err)
	defer client.HTTP.CloseIdleConnections()
	late := config(client, nil)
	late.Patience = time.Millisecond
	if _, err := Read(t.Context(), late); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a server that never answers: %v", err)
	}
	stop := errors.New("stop")
	c := config(&promapi.Client{HTTP: &http.Client{}, URL: "http://127.0.0.1:1"}, nil)
	c.Pause = func(context.Context, time.Duration) error { return stop }
	if _, err := Read(t.Context(), c); !errors.Is(err, stop) {
		t.Errorf("an interrupted pause: %v", err)
	}
}
