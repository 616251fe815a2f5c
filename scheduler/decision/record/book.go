package record

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"gnnsched/scheduler/decision"
)

// DefaultSize is the default number of decisions that a scheduler keeps in memory. One takes about 4 KB.
const DefaultSize = 2048

// Book keeps the last decisions in memory, and hands all of them to a Journal if it has one. It is safe for
// concurrent use.
type Book struct {
	journal Journal // nil for none

	mu    sync.Mutex
	ring  []decision.Decision // up to its capacity
	total uint64              // decisions ever heard of; the oldest of a full ring is ring[total%len]
}

var (
	_ decision.Listener = &Book{}
	_ http.Handler      = &Book{}
)

// NewBook returns a book of the last size decisions, at least one. journal may be nil.
func NewBook(size int, journal Journal) *Book {
	return &Book{journal: journal, ring: make([]decision.Decision, 0, max(size, 1))}
}

// Decided implements decision.Listener.
func (b *Book) Decided(d decision.Decision) {
	d = bound(d)
	b.mu.Lock()
	if len(b.ring) < cap(b.ring) {
		b.ring = append(b.ring, d)
	} else {
		b.ring[b.total%uint64(len(b.ring))] = d
	}
	b.total++
	b.mu.Unlock()
	if b.journal != nil {
		b.journal.write(Of(&d))
	}
}

// Query chooses records. Empty fields do not count.
type Query struct {
	Namespace, Pod string
	UID            string
	Limit          int // at most this many, 0 for all
}

// Last returns the chosen records, the newest first.
func (b *Book) Last(q Query) []Record {
	records := []Record{}
	for _, d := range b.last(q) {
		records = append(records, Of(&d))
	}
	return records
}

// After returns the records of the decisions after the first n of all, the newest first and at most limit, and the
// number of all.
func (b *Book) After(n uint64, limit int) (records []Record, total uint64) {
	b.mu.Lock()
	total = b.total
	count := min(total-min(n, total), uint64(len(b.ring)), uint64(max(limit, 0)))
	found := make([]decision.Decision, count)
	for i := range count {
		found[i] = b.ring[(total-1-i)%uint64(len(b.ring))]
	}
	b.mu.Unlock()
	records = make([]Record, count)
	for i := range found {
		records[i] = Of(&found[i])
	}
	return records, total
}

func (b *Book) last(q Query) (found []decision.Decision) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range uint64(len(b.ring)) {
		d := &b.ring[(b.total-1-i)%uint64(len(b.ring))]
		if q.Limit > 0 && len(found) == q.Limit {
			break
		}
		if q.matches(d.Pod) {
			found = append(found, *d)
		}
	}
	return found
}

func (q Query) matches(p decision.Pod) bool {
	return (q.Namespace == "" || q.Namespace == p.Namespace) && (q.Pod == "" || q.Pod == p.Name) && (q.UID == "" || q.UID == p.UID)
}

// Held returns the number of decisions in memory, and of all that the book ever heard of.
func (b *Book) Held() (held int, total uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.ring), b.total
}

// Path is the path of a scheduler's book.
const Path = "/debug/decisions"

// page is the answer of a Book over HTTP.
type page struct {
	Held    int      `json:"held"`  // decisions in memory
	Total   uint64   `json:"total"` // decisions since the process started
	Records []Record `json:"records"`
}

// defaultLimit is the number of records of an answer to a query that names no limit.
const defaultLimit = 100

// ServeHTTP implements http.Handler. It answers GET with a page. The parameters are pod=NAMESPACE/NAME, uid and
// limit.
func (b *Book) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "only GET is answered", http.StatusMethodNotAllowed)
		return
	}
	q, err := queryOf(r)
	if err != nil {
		http.Error(w, short(err.Error(), maxFailure), http.StatusBadRequest)
		return
	}
	held, total := b.Held()
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	_ = json.NewEncoder(w).Encode(page{held, total, b.Last(q)}) // the caller may have gone
}

// queryOf reads the parameters of a request.
func queryOf(r *http.Request) (q Query, err error) {
	values := r.URL.Query()
	for name := range values {
		if name != "pod" && name != "uid" && name != "limit" {
			return q, fmt.Errorf("parameter %q is not known; there are pod, uid and limit", name)
		}
	}
	q = Query{UID: values.Get("uid"), Limit: defaultLimit}
	if pod := values.Get("pod"); pod != "" {
		var ok bool
		if q.Namespace, q.Pod, ok = strings.Cut(pod, "/"); !ok {
			return q, fmt.Errorf("parameter pod is %q, want NAMESPACE/NAME", pod)
		}
	}
	if limit := values.Get("limit"); limit != "" {
		if q.Limit, err = strconv.Atoi(limit); err != nil || q.Limit < 1 {
			return q, fmt.Errorf("parameter limit is %q, want a number of 1 or more", limit)
		}
	}
	return q, nil
}
