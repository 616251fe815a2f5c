package state

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// metricsServer answers the requests of ktop for two nodes; metrics may fail.
func metricsServer(t *testing.T, metrics func(http.ResponseWriter, *http.Request)) Config {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case r.URL.Path == "/apis/metrics.k8s.io/v1beta1/nodes":
			metrics(w, r)
		case r.URL.Query().Get("sendInitialEvents") != "": // the client then lists
			w.WriteHeader(http.StatusBadRequest)
		case r.URL.Query().Get("watch") != "": // nothing changes
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		case r.URL.Path == "/api/v1/nodes":
			fmt.Fprint(w, `{"kind": "NodeList", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": [{"metadata": {"name": "a"}}, {"metadata": {"name": "b"}}]}`)
		default:
			fmt.Fprint(w, `{"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": []}`)
		}
	}))
	t.Cleanup(s.Close)
	client, err := kubernetes.NewForConfig(&rest.Config{Host: s.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.RESTClient().(*rest.RESTClient).Client.CloseIdleConnections)
	return Config{Client: client, Selector: "zone=a"}
}

func TestUsed(t *testing.T) {
	var selector atomic.Value
	cfg := metricsServer(t, func(w http.ResponseWriter, r *http.Request) {
		selector.Store(r.URL.Query().Get("labelSelector"))
		fmt.Fprint(w, `{"items": [{"metadata": {"name": "a"}, "usage": {"cpu": "1234567890n", "memory": "2Gi"}}, {"metadata": {"name": "gone"}, "usage": {"cpu": "1"}}]}`)
	})
	f, err := List(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	want := Measured{CPU: 1235, Memory: 2 << 30}
	if got := f.Nodes[0].Used; got == nil || *got != want {
		t.Errorf("a uses %+v, want %+v", got, want)
	}
	if f.Nodes[1].Used != nil || f.Totals.Used == nil || *f.Totals.Used != want || f.Totals.Measured != 1 {
		t.Errorf("b uses %+v; all use %+v, %d measured", f.Nodes[1].Used, f.Totals.Used, f.Totals.Measured)
	}
	if got := selector.Load(); got != "zone=a" {
		t.Errorf("asked for the nodes %q", got)
	}
}

// TestNotMeasured: metrics that fail in any way leave the rest as it is.
func TestNotMeasured(t *testing.T) {
	for name, answer := range map[string]func(http.ResponseWriter, *http.Request){
		"no API":   http.NotFound,
		"down":     func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) },
		"nonsense": func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"items": 3}`) },
	} {
		f, err := List(t.Context(), metricsServer(t, answer))
		if err != nil || len(f.Nodes) != 2 || f.Nodes[0].Used != nil || f.Totals.Used != nil {
			t.Errorf("%s: %+v, %v", name, f, err)
		}
	}
}

// TestUsedIsFollowed starts a source, whose first frames may come before the answer.
func TestUsedIsFollowed(t *testing.T) {
	cfg := metricsServer(t, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"items": [{"metadata": {"name": "b"}, "usage": {"cpu": "-5", "memory": "1Ki"}}]}`)
	})
	s, err := Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop()
	eventually(t, s, "b is measured", func(f Frame) bool {
		return len(f.Nodes) == 2 && f.Nodes[1].Used != nil && *f.Nodes[1].Used == Measured{Memory: 1 << 10}
	})
}
