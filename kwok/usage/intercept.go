package usage

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync"
)

// The ports by which requests may name a kubelet, Kepler or node-exporter.
const (
	kubeletPort      = "10250"
	keplerPort       = "28282"
	nodeExporterPort = "9100"
)

// discoveryPath lists the nodes for Prometheus, in the format of its http_sd_configs. It is the path of kwok's own server.
const discoveryPath = "/discovery/prometheus"

// Intercept answers requests for the metrics of a kubelet of the simulated cluster and of the exporters of power beside it, and
// for the list of the nodes. It passes all other requests on to next. It belongs behind the API server's authentication and authorization,
// in front of what would connect to the kubelet: simulated nodes have none.
func (s *Sampler) Intercept(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		node, p := nodePage(r.URL.Path)
		listed := r.URL.Path == discoveryPath
		if p == nil && !listed || r.Method != http.MethodGet {
			next.ServeHTTP(w, r)
			return
		}
		now, ok := s.read()
		if !ok {
			http.Error(w, "no sample of the nodes' use has been taken yet", http.StatusServiceUnavailable)
			return
		}
		if listed {
			now.discovery(w, r.Host)
			return
		}
		n := now.node(node)
		if n == nil {
			next.ServeHTTP(w, r) // answers that the node does not exist
			return
		}
		buf := buffers.Get().(*[]byte)
		defer buffers.Put(buf)
		out := writer{buf: (*buf)[:0], since: now.since}
		out.page(p, n)
		*buf = out.buf
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		_, _ = w.Write(out.buf) // fails if the client has gone
	})
}

// target is an entry of http_sd_configs.
type target struct {
	Targets []string          `json:"targets"`
	Labels  map[string]string `json:"labels"`
}

// discovery lists the nodes, which all are at the API server's address.
func (r reading) discovery(w http.ResponseWriter, host string) {
	list := make([]target, len(r.nodes))
	for i := range r.nodes {
		list[i] = target{Targets: []string{host}, Labels: map[string]string{"node": r.nodes[i].node.Name}}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(list) // fails if the client has gone
}

var buffers = sync.Pool{New: func() any { return new([]byte) }}

// pages holds the pages of a node by port and path.
var pages = map[string]page{
	" proxy/metrics/resource":               resourcePage,
	" proxy/metrics/cadvisor":               cadvisorPage,
	kubeletPort + " proxy/metrics/resource": resourcePage,
	kubeletPort + " proxy/metrics/cadvisor": cadvisorPage,
	keplerPort + " proxy/metrics":           keplerPage,
	nodeExporterPort + " proxy/metrics":     nodeExporterPage,
}

// nodePage returns the node and the page that a path names, such as
// /api/v1/nodes/node-0/proxy/metrics/resource, or nil for every other path.
func nodePage(path string) (node string, p page) {
	rest, ok := strings.CutPrefix(path, "/api/v1/nodes/")
	if !ok {
		return "", nil
	}
	node, rest, _ = strings.Cut(rest, "/")
	node = strings.TrimPrefix(node, "https:")
	node, port, _ := strings.Cut(node, ":")
	page, has := pages[port+" "+rest]
	if !has {
		return "", nil
	}
	return node, page
}
