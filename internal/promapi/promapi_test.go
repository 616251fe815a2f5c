package promapi

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// Transient errors are distinguished from queries that will never be answered, and answers with warnings are answers.
func TestAnswers(t *testing.T) {
	const vector = `"data":{"resultType":"vector","result":[{"metric":{"node":"a"},"value":[1,"2"]}]}`
	for _, c := range []struct {
		name    string
		status  int
		body    string
		want    string // in the error; empty for an answer
		refused bool
		warned  []string
	}{
		{name: "answer", status: 200, body: `{"status":"success",` + vector + `}`},
		{name: "warnings", status: 200, body: `{"status":"success","warnings":["a store is away","b"],"infos":["i"],` + vector + `}`,
			warned: []string{"a store is away", "b"}},
		{name: "error in a 200", status: 200, body: `{"status":"error","errorType":"timeout","error":"slow"}`, want: `Prometheus says "slow"`},
		{name: "untyped error in a 200", status: 200, body: `{"status":"error","error":"slow"}`, want: `Prometheus says "slow"`},
		{name: "bad query in a 200", status: 200, body: `{"status":"error","errorType":"bad_data","error":"parse error"}`,
			want: `Prometheus says "parse error"`, refused: true},
		{name: "too many samples", status: 422, body: `{"status":"error","errorType":"execution","error":"too many samples"}`,
			want: `Prometheus says "too many samples"`, refused: true},
		{name: "bad request", status: 400, body: `{"error":"no"}`, want: "not an answer of Prometheus"},
		{name: "timeout", status: 503, body: `{"status":"error","errorType":"timeout","error":"query timed out"}`, want: "server error: 503: "},
		{name: "timeout behind a proxy", status: 422, body: `{"status":"error","errorType":"timeout","error":"query timed out"}`,
			want: "query timed out"},
		{name: "busy", status: 429, body: `{"error":"slow down"}`, want: "slow down"},
		{name: "a page", status: 502, body: "<html>", want: `server error: 502: "<html>"`},
		{name: "another type", status: 200, body: `{"status":"success","data":{"resultType":"scalar","result":[1,"2"]}}`, want: "not a vector"},
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(c.status)
			_, _ = w.Write([]byte(c.body))
		}))
		client, err := New(Server{Address: s.URL})
		if err != nil {
			t.Fatal(err)
		}
		var warned []string
		client.Warn = func(w string) { warned = append(warned, w) }
		got, err := client.Query(t.Context(), "up", time.Time{})
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) || err == nil && len(got) != 1 {
			t.Errorf("%s: %v, %v, want %q", c.name, got, err, c.want)
		}
		if refused := (Refused{}); errors.As(err, &refused) != c.refused {
			t.Errorf("%s: refused %v, want %v", c.name, !c.refused, c.refused)
		}
		if d := cmp.Diff(c.warned, warned); d != "" {
			t.Errorf("%s: %s", c.name, d)
		}
		client.HTTP.CloseIdleConnections()
		s.Close()
	}
}
