// Package historytest is test support: a Prometheus server with a made-up history of an hour and recorded answers of a real one. A test of
// package history asks a real one again where it is installed, and rewrites the answers with -update.
package historytest

import (
	_ "embed"
	"encoding/json"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"
)

//go:embed answers.json
var answers []byte

// Begin is the begin of the history. It is read in chunks of Chunk, with usage every Usage, until End.
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

// Server answers queries about the made-up history until the test ends, including queries for usage at one of the recorded times. answer,
// if not nil, is asked first; it returns true if it has answered.
func Server(t *testing.T, answer func(w http.ResponseWriter, query url.Values) bool) *httptest.Server {
	t.Helper()
	return Play(t, answers, answer)
}

// Play is Server with other recorded answers, a JSON object by Key.
func Play(t *testing.T, recorded []byte, answer func(w http.ResponseWriter, query url.Values) bool) *httptest.Server {
	t.Helper()
	var all map[string]json.RawMessage
	if err := json.Unmarshal(recorded, &all); err != nil {
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
			text, ok = instant(t, all, r.Form)
		}
		for key, grouped := range all { // the nodes' series have no other labels
			if !ok && r.Form.Get("query") == "kube_node_info" && strings.HasSuffix(key, " (kube_node_info) "+r.Form.Get("time")) {
				text, ok = grouped, true
			}
		}
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

// instant answers a query for one of the times of a recorded answer to the same query over a range.
func instant(t *testing.T, all map[string]json.RawMessage, form url.Values) (json.RawMessage, bool) {
	at, err := strconv.ParseFloat(form.Get("time"), 64)
	if err != nil {
		return nil, false
	}
	for key, text := range all {
		if !strings.HasPrefix(key, "query_range "+form.Get("query")+" ") || !covers(key, at) {
			continue
		}
		var ranged struct {
			Data struct {
				Result []struct {
					Metric json.RawMessage `json:"metric"`
					Values [][2]any        `json:"values"`
				} `json:"result"`
			} `json:"data"`
		}
		if err := json.Unmarshal(text, &ranged); err != nil {
			t.Error(err)
		}
		vector := []map[string]any{}
		for _, series := range ranged.Data.Result {
			for _, v := range series.Values {
				if v[0] == at {
					vector = append(vector, map[string]any{"metric": series.Metric, "value": v})
				}
			}
		}
		return answer(t, vector), true
	}
	return nil, false
}

// covers reports whether the range of a recorded answer has a time.
func covers(key string, at float64) bool {
	start, err := strconv.ParseFloat(key[strings.LastIndex(key, " ")+1:], 64)
	return err == nil && at >= start && at < start+Chunk.Seconds() && math.Mod(at-start, Usage.Seconds()) == 0
}

func answer(t *testing.T, vector []map[string]any) json.RawMessage {
	text, err := json.Marshal(map[string]any{"status": "success", "data": map[string]any{"resultType": "vector", "result": vector}})
	if err != nil {
		t.Error(err)
	}
	return text
}
