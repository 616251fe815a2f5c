package usage

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
)

// Path is the path at which the scheduler answers with its reports.
const Path = "/debug/usage"

// mostNamed bounds the nodes that a report names.
const mostNamed = 20

// Report describes a source's measurements, and which nodes are nevertheless scored by requests.
type Report struct {
	Source   string     `json:"source"`
	Polled   int64      `json:"polled"`   // when it was last asked, in Unix seconds; 0: not yet
	Newest   int64      `json:"newest"`   // time of the newest sample; 0: there is none
	Failed   bool       `json:"failed"`   // the last question had no answer
	Measured int        `json:"measured"` // nodes that are scored by usage
	Degraded int        `json:"degraded"` // nodes that are scored by requests
	Named    []Degraded `json:"named"`    // the first of them by name
}

// Degraded is a node that is scored by requests, and why: absent, stale, invalid or failed.
type Degraded struct {
	Node   string `json:"node"`
	Reason string `json:"reason"`
}

// reportOf returns the report of the store's state.
func (s *store) reportOf(now float64, failed bool) Report {
	r := Report{Source: s.config.Source, Polled: int64(now), Failed: failed, Named: []Degraded{}}
	for name, h := range s.nodes {
		if h.at > 0 {
			r.Newest = max(r.Newest, int64(h.at))
		}
		if h.degraded == "" {
			r.Measured++
			continue
		}
		r.Degraded++
		r.Named = append(r.Named, Degraded{name, string(h.degraded)})
	}
	slices.SortFunc(r.Named, func(a, b Degraded) int { return cmp.Compare(a.Node, b.Node) })
	r.Named = slices.Clip(r.Named[:min(len(r.Named), mostNamed)])
	return r
}

// Reports returns the reports of all sources that the schedulers of this process ask, by name; none without measured usage.
func Reports() []Report {
	out := []Report{}
	started.Range(func(_, s any) bool {
		out = append(out, s.(*store).current().Report)
		return true
	})
	slices.SortFunc(out, func(a, b Report) int { return cmp.Or(cmp.Compare(a.Source, b.Source), cmp.Compare(b.Polled, a.Polled)) })
	return out
}

// ServeReports answers GET with the reports.
func ServeReports(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "only GET is answered", http.StatusMethodNotAllowed)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	_ = json.NewEncoder(w).Encode(Reports()) // the caller may have gone
}

// ParseReports reads an answer of ServeReports.
func ParseReports(text []byte) ([]Report, error) {
	var out []Report
	if err := json.Unmarshal(text, &out); err != nil {
		return nil, err
	}
	for _, r := range out {
		if r.Source == "" || r.Polled < 0 || r.Newest < 0 || r.Measured < 0 || r.Degraded < len(r.Named) {
			return nil, errors.New("a report of usage whose figures cannot be")
		}
	}
	return out, nil
}
