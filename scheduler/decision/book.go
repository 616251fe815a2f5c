package decision

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
)

// DefaultBookSize is the default number of decisions that a scheduler keeps in memory. One takes about 4 KB.
const DefaultBookSize = 2048

// Book keeps the last decisions in memory, and hands all of them to a Journal if it has one. It is safe for
// concurrent use.
type Book struct {
	journal *Journal // nil for none

	mu    sync.Mutex
	ring  []Record // up to its capacity
	total uint64   // decisions ever heard of; the oldest of a full ring is ring[total%len]
}

var (
	_ Listener     = &Book{}
	_ http.Handler = &Book{}
)

// NewBook returns a book of the last size decisions, at least one. journal may be nil.
func NewBook(size int, journal *Journal) *Book {
	return &Book{journal: journal, ring: make([]Record, 0, max(size, 1))}
}

// Decided implements Listener.
func (b *Book) Decided(d Decision) {
	r := RecordOf(&d)
	r.bound()
	b.mu.Lock()
	if len(b.ring) < cap(b.ring) {
		b.ring = append(b.ring, r)
	} else {
		b.ring[b.total%uint64(len(b.ring))] = r
	}
	b.total++
	b.mu.Unlock()
	if b.journal != nil {
		b.journal.write(r)
	}
}

// Query chooses records. Empty fields do not count.
type Query struct {
	Namespace, Pod string
	UID            string
	Limit          int // at most this many, 0 for all
}

// newest returns record number i from the newest on. The caller holds the lock.
func (b *Book) newest(i int) Record { return b.ring[(b.total-1-uint64(i))%uint64(len(b.ring))] }

// Last returns the chosen records, the newest first.
func (b *Book) Last(q Query) []Record {
	b.mu.Lock()
	defer b.mu.Unlock()
	records := []Record{}
	for i := range b.ring {
		if q.Limit > 0 && len(records) == q.Limit {
			break
		}
		if r := b.newest(i); q.matches(&r) {
			records = append(records, r)
		}
	}
	return records
}

// After returns the records of the decisions after the first n of all, the newest first and at most limit, and the
// number of all.
func (b *Book) After(n uint64, limit int) (records []Record, total uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	records = make([]Record, min(b.total-min(n, b.total), uint64(len(b.ring)), uint64(max(limit, 0))))
	for i := range records {
		records[i] = b.newest(i)
	}
	return records, b.total
}

func (q Query) matches(r *Record) bool {
	return (q.Namespace == "" || q.Namespace == r.Namespace) && (q.Pod == "" || q.Pod == r.Pod) && (q.UID == "" || q.UID == r.UID)
}

// Held returns the number of decisions in memory, and of all that the book ever heard of.
func (b *Book) Held() (held int, total uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.ring), b.total
}

// DebugPath is the path of a scheduler's book.
const DebugPath = "/debug/decisions"

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
