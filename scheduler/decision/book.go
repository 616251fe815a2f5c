package decision

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"

	"gopkg.in/natefinch/lumberjack.v2"
)

// AnswerSize is the number of newest decisions that ktop and the page ask for at a time, and Kept the number that they keep and count.
const (
	AnswerSize = 300
	Kept       = 1000
)

// DefaultBookSize is the default number of decisions that a scheduler keeps in memory. One takes about 4 KB.
const DefaultBookSize = 2048

// Book keeps the last decisions in memory, and hands all of them to a Journal if it has one. Pods that find no node are tried again and
// again, so their decisions have as much memory of their own: they push no placement out. It is safe for concurrent use.
type Book struct {
	journal *Journal // nil for none

	mu             sync.Mutex
	placed, failed ring
	total          uint64 // decisions ever heard of
}

// ring holds the last records, up to its capacity.
type ring struct {
	records []Record
	at      []uint64 // of each record, its number among all decisions, from 1
	added   int      // so far; the oldest of a full ring is records[added%len]
}

func ringOf(size int) ring {
	return ring{records: make([]Record, 0, size), at: make([]uint64, 0, size)}
}

func (r *ring) add(x Record, at uint64) {
	if len(r.records) < cap(r.records) {
		r.records, r.at = append(r.records, x), append(r.at, at)
	} else {
		r.records[r.added%len(r.records)], r.at[r.added%len(r.records)] = x, at
	}
	r.added++
}

// newest returns the index of record number i from the newest on, and its number among all decisions; 0 if there is none.
func (r *ring) newest(i int) (index int, at uint64) {
	if i >= len(r.records) {
		return 0, 0
	}
	index = (r.added - 1 - i) % len(r.records)
	return index, r.at[index]
}

var (
	_ Listener     = &Book{}
	_ http.Handler = &Book{}
)

// NewBook returns a book of the last size placements, at least one, and as many attempts that found no node. journal may be nil.
func NewBook(size int, journal *Journal) *Book {
	size = max(size, 1)
	return &Book{journal: journal, placed: ringOf(size), failed: ringOf(size)}
}

// Decided implements Listener.
func (b *Book) Decided(d Decision) {
	r := RecordOf(&d)
	r.bound()
	b.mu.Lock()
	b.total++
	if r.Node == "" {
		b.failed.add(r, b.total)
	} else {
		b.placed.add(r, b.total)
	}
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

// records yields the records, the newest first, with their numbers among all decisions. The caller holds the lock.
func (b *Book) records(yield func(r *Record, at uint64) bool) {
	for placed, failed := 0, 0; ; {
		i, at := b.placed.newest(placed)
		k, failedAt := b.failed.newest(failed)
		switch {
		case at == 0 && failedAt == 0:
			return
		case at > failedAt:
			if !yield(&b.placed.records[i], at) {
				return
			}
			placed++
		default:
			if !yield(&b.failed.records[k], failedAt) {
				return
			}
			failed++
		}
	}
}

// Last returns the chosen records, the newest first. Of a limited answer about all pods, at most half found no node.
func (b *Book) Last(q Query) []Record {
	b.mu.Lock()
	defer b.mu.Unlock()
	failures := math.MaxInt
	if q.Limit > 0 && q.Pod == "" && q.UID == "" {
		failures = (q.Limit + 1) / 2
	}
	return b.newest(0, cmp.Or(q.Limit, math.MaxInt), failures, q)
}

// After returns records of the decisions after the first n of all, the newest first and at most limit, of which at most half found no
// node, and the number of all.
func (b *Book) After(n uint64, limit int) (records []Record, total uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.newest(n, limit, (limit+1)/2, Query{}), b.total
}

// newest returns at most limit of the chosen records after the first n decisions, of which at most failures found no node. The caller holds
// the lock.
func (b *Book) newest(n uint64, limit, failures int, q Query) []Record {
	records := []Record{}
	for r, at := range b.records {
		if at <= n || len(records) >= limit {
			break
		}
		if !q.matches(r) {
			continue
		}
		if r.Node == "" {
			if failures == 0 {
				continue
			}
			failures--
		}
		records = append(records, *r)
	}
	return records
}

func (q Query) matches(r *Record) bool {
	return (q.Namespace == "" || q.Namespace == r.Namespace) && (q.Pod == "" || q.Pod == r.Pod) && (q.UID == "" || q.UID == r.UID)
}

// Held returns the number of decisions in memory, and of all that the book ever heard of.
func (b *Book) Held() (held int, total uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.placed.records) + len(b.failed.records), b.total
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

// A journal of maxMegabytes is renamed, with its time in the name, and a new one begun. The oldest is deleted when
// there are more than maxBackups besides the current one. So all take at most 500 MB.
const (
	maxMegabytes = 100
	maxBackups   = 4
)

// Journal writes records to a file, one JSON object a line. It is safe for concurrent use.
type Journal struct {
	path   string
	failed func(err error, lost uint64)

	mu   sync.Mutex
	lost uint64 // records that could not be written since the last that could
	file io.WriteCloser
	line []byte
	torn bool // whether the file may end inside a line
}

// OpenJournal opens the file, which only its owner may read: it names pods. failed is called for the first of several records that cannot
// be written, for example on a full disk, and once more when writing works again, with a nil error and the number of lost records. It is
// also called, with a nil error and 1, if the last record in the file is partial and was cut off.
func OpenJournal(path string, failed func(err error, lost uint64)) (*Journal, error) {
	// lumberjack opens the file at the first line, which is too late for a usage error.
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	cut, torn, err := whole(f)
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	if cut {
		failed(nil, 1)
	}
	file := &lumberjack.Logger{Filename: path, MaxSize: maxMegabytes, MaxBackups: maxBackups}
	return &Journal{path: path, file: file, failed: failed, torn: torn}, nil
}

// whole cuts off a partial record at the end of the file: the writer was killed, or the disk was full. Other text without a line feed
// stays: a record that lacks nothing else, or a file of another kind. torn reports whether there is such text. whole fails for folders,
// pipes and the like.
func whole(f *os.File) (cut, torn bool, err error) {
	info, err := f.Stat()
	if err != nil {
		return false, false, err
	}
	if !info.Mode().IsRegular() {
		return false, false, fmt.Errorf("%s is not a regular file", f.Name())
	}
	from := max(info.Size()-maxLine, 0)
	tail := make([]byte, info.Size()-from)
	if _, err := f.ReadAt(tail, from); err != nil && !errors.Is(err, io.EOF) {
		return false, false, err
	}
	last := bytes.LastIndexByte(tail, '\n') + 1
	switch _, faulty := ParseRecord(tail[last:]); {
	case last == len(tail):
		return false, false, nil
	case faulty == nil || !begun(tail[last:]) || last == 0 && from > 0:
		return false, true, nil
	}
	return true, false, f.Truncate(from + int64(last))
}

// begun reports whether a text is the beginning of a record.
func begun(text []byte) bool {
	head := fmt.Appendf(nil, `{"schema":%d,`, schemaVersion)
	n := min(len(head), len(text))
	return bytes.Equal(head[:n], text[:n])
}

// write writes a record as a line.
func (j *Journal) write(r Record) {
	text, err := json.Marshal(r)
	if err != nil { // a score that is not finite, which no policy may give
		j.failed(fmt.Errorf("write a decision: %w", err), 1)
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.line = j.line[:0]
	if j.torn {
		j.line = append(j.line, '\n')
	}
	j.line = append(append(j.line, text...), '\n')
	n, err := j.file.Write(j.line)
	switch {
	case err == nil:
		j.torn = false
	case n > 0:
		j.torn = j.takeBack(n) != nil
	}
	if err != nil {
		err = fmt.Errorf("write a decision: %w", err)
	}
	j.wrote(err)
}

// wrote notes that a record was written, or that it is lost. Only the first error in a row is told.
func (j *Journal) wrote(err error) {
	switch {
	case err == nil && j.lost > 0:
		j.failed(nil, j.lost)
		j.lost = 0
	case err != nil:
		if j.lost == 0 {
			j.failed(err, 1)
		}
		j.lost++
	}
}

// takeBack cuts the last bytes off the file: the part of a line that reached the disk.
func (j *Journal) takeBack(bytes int) error {
	if err := j.file.Close(); err != nil { // the next write opens it again
		return err
	}
	info, err := os.Stat(j.path)
	if err != nil {
		return err
	}
	return os.Truncate(j.path, info.Size()-int64(bytes))
}

// Close closes the file. Later decisions open it again.
func (j *Journal) Close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.file.Close()
}

// maxLine is the longest line that is read, in bytes.
const maxLine = 2 << 20

// ReadRecords calls each with the records of a file that a Journal wrote, in their order. The last line may be cut off. For any other
// file it returns an error with the file and the line.
func ReadRecords(path string, each func(Record)) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	lines, faulty := bufio.NewScanner(f), error(nil)
	number, records := 0, 0
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		if number++; len(lines.Bytes()) == 0 {
			continue
		}
		r, err := ParseRecord(lines.Bytes())
		if err != nil { // a torn line of a killed writer, unless no line is a record
			faulty = fmt.Errorf("%s:%d: %w", path, number, err)
			continue
		}
		records++
		each(r)
	}
	if err := lines.Err(); err != nil { // the rest may be newer
		return fmt.Errorf("%s:%d: %w", path, number+1, err)
	}
	if records == 0 && faulty != nil {
		return faulty
	}
	return nil
}
