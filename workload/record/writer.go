package record

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
)

// Options configure a Writer.
type Options struct {
	Limit int // largest number of rows of a table that wait in memory for the disk; 0: defaultLimit
}

// defaultLimit is the largest number of rows of a table that wait for a full disk. Rows of pods take about 700 bytes each.
const defaultLimit = 200_000

// Writer adds to a record. Rows stay in memory until Flush. Rows that Check refuses are left out, and Flush counts them. Its methods
// may be called from several goroutines.
type Writer struct {
	mu      sync.Mutex
	dir     string
	lock    *os.File
	options Options
	next    int           // number of the next flush
	failed  map[part]bool // first parts of groups that could not be merged
	refused Refused

	pods    pending[Pod]
	nodes   pending[Node]
	objects pending[Object]
	samples pending[Sample]
	runs    pending[Run]
}

// ErrLocked is the error of a record that another process writes.
var ErrLocked = errors.New("another process writes this record")

// Create opens a record for writing. It makes the folder if it is missing, goes on with an existing record, and removes the remains of a
// killed process. A folder with other files is refused.
func Create(dir string, o Options) (*Writer, error) {
	o.Limit = cmp.Or(o.Limit, defaultLimit)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if err := ours(dir); err != nil {
		return nil, err
	}
	lock, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		lock.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			err = ErrLocked
		}
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	w := &Writer{dir: dir, lock: lock, options: o, next: 1, failed: map[part]bool{}}
	if err := w.tidy(); err != nil {
		lock.Close()
		return nil, err
	}
	return w, nil
}

// lockFile is locked by the process that writes the record.
const lockFile = ".lock"

// ours returns an error if a folder has files that are no part of a record.
func ours(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if _, ok := parse(e.Name()); !ok && e.Name() != lockFile && !temporary(e.Name()) {
			return fmt.Errorf("%s holds %q, which belongs to no record; name a new or empty folder", dir, e.Name())
		}
	}
	return nil
}

func temporary(file string) bool { return strings.HasPrefix(file, ".part-") }

// tidy removes incomplete and replaced files, and finds the number of the next flush.
func (w *Writer) tidy() error {
	entries, err := os.ReadDir(w.dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if temporary(e.Name()) {
			if err := os.Remove(filepath.Join(w.dir, e.Name())); err != nil {
				return err
			}
		}
	}
	parts, replaced, err := list(w.dir)
	if err != nil {
		return err
	}
	for _, p := range replaced {
		if err := os.Remove(filepath.Join(w.dir, p.file())); err != nil {
			return err
		}
	}
	for _, p := range parts {
		w.next = max(w.next, p.last+1)
	}
	return nil
}

// Pod adds the state of a pod. It replaces what was known of the pod before.
func (w *Writer) Pod(p Pod) { put(w, &w.pods, p, w.pods.put) }

// Node adds the state of a node.
func (w *Writer) Node(n Node) { put(w, &w.nodes, n, w.nodes.put) }

// Object adds an object.
func (w *Writer) Object(o Object) { put(w, &w.objects, o, w.objects.put) }

// Sample adds a measurement, once for each time and name.
func (w *Writer) Sample(s Sample) { put(w, &w.samples, s, w.samples.add) }

// Run adds a time of recording. Flush adds to it the rows that were lost.
func (w *Writer) Run(r Run) { put(w, &w.runs, r, w.runs.put) }

// put adds a row, unless Check refuses it.
func put[T row](w *Writer, to *pending[T], r T, add func(T)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := Check(&r); err != nil {
		w.refused.Rows++
		w.refused.First = cmp.Or(w.refused.First, err)
		return
	}
	add(r)
	to.drop(w.options.Limit)
}

// Flushed describes a flush.
type Flushed struct {
	Rows    int   // written now
	Pending int   // still in memory, because the disk did not take them
	Lost    int64 // dropped since Create, because the disk did not take them in time
	Refused Refused
}

// Refused are the rows that a Writer has left out since Create, because Check refuses them.
type Refused struct {
	Rows  int64
	First error // the first one's fault
}

// Flush writes all rows to the disk. If that fails, rows stay in memory for the next Flush, up to Options.Limit of a
// table; then the oldest are dropped.
func (w *Writer) Flush() (Flushed, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	lost := w.pods.lost + w.nodes.lost + w.objects.lost + w.samples.lost + w.runs.lost
	for i := range w.runs.rows {
		w.runs.rows[i].Lost = lost
	}
	out := Flushed{Lost: lost, Refused: w.refused}
	var errs []error
	for _, f := range []func(string, int) (int, error){w.nodes.flush, w.objects.flush, w.pods.flush, w.samples.flush, w.runs.flush} {
		n, err := f(w.dir, w.next)
		out.Rows += n
		errs = append(errs, err)
	}
	if out.Rows > 0 {
		w.next++
	}
	out.Pending = len(w.pods.rows) + len(w.nodes.rows) + len(w.objects.rows) + len(w.samples.rows) + len(w.runs.rows)
	return out, errors.Join(errs...)
}

// Close flushes, and lets others write the record.
func (w *Writer) Close() (Flushed, error) {
	out, err := w.Flush()
	return out, errors.Join(err, w.lock.Close())
}

// Numbers of flushes whose parts become one file. With a flush every five minutes, a file holds an hour, then a day.
var mergeSizes = []int{12, 288}

// Merge merges small parts into larger ones and drops rows that later ones replaced. With a cutoff over 0 it also drops, from the parts
// that were last written before it, pods, nodes and objects that ended before, and samples of before. At every moment, readers see the
// whole record, or with a cutoff its remaining part. Parts that cannot be merged are not tried again. Calls must not overlap.
func (w *Writer) Merge(cutoff int64) error {
	w.mu.Lock()
	next := w.next
	w.mu.Unlock()
	parts, _, err := list(w.dir)
	if err != nil {
		return err
	}
	var errs []error
	for _, table := range tables {
		of := slices.DeleteFunc(slices.Clone(parts), func(p part) bool { return p.table != table })
		errs = append(errs, w.mergeTable(of, next, cutoff))
	}
	return errors.Join(errs...)
}

func (w *Writer) mergeTable(parts []part, next int, cutoff int64) error {
	if len(parts) == 0 {
		return nil
	}
	merge := map[string]func(string, []part, int64) error{
		"pods": mergeParts[Pod], "nodes": mergeParts[Node], "objects": mergeParts[Object], "usage": mergeParts[Sample], "runs": mergeParts[Run],
	}[parts[0].table]
	// Rows that ended are dropped only from the oldest parts, taken together. An earlier part could otherwise keep the
	// row of when the pod still ran, and readers would take it for running again.
	aged := 0
	for cutoff > 0 && aged < len(parts) && old(w.dir, parts[aged], cutoff) {
		aged++
	}
	all := groups(parts[aged:], next)
	if aged > 0 {
		all = slices.Insert(all, 0, parts[:aged])
	}
	var errs []error
	for i, group := range all {
		if w.failed[group[0]] {
			continue
		}
		limit := int64(0)
		if aged > 0 && i == 0 {
			limit = cutoff
		}
		if err := merge(w.dir, group, limit); err != nil {
			w.failed[group[0]] = true
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// old reports whether a file was last written before the cutoff. Rewriting it makes it young, so it is examined once in the retention time.
func old(dir string, p part, cutoff int64) bool {
	info, err := os.Stat(filepath.Join(dir, p.file()))
	return err == nil && info.ModTime().UnixMilli() < cutoff
}

// groups returns lists of parts that are to become one each: all parts within a period of flushes that is over.
func groups(parts []part, next int) (out [][]part) {
	for i := 0; i < len(parts); {
		j := i + 1
		for _, size := range mergeSizes {
			period := (parts[i].first - 1) / size
			if (period+1)*size >= next {
				break // not over
			}
			for j < len(parts) && (parts[j].last-1)/size == period {
				j++
			}
		}
		if j-i > 1 {
			out = append(out, parts[i:j])
		}
		i = j
	}
	return out
}

// mergeParts merges parts into one, or rewrites a single one. It reads the newest first, so that it needs to keep only the keys that it has
// seen. An unreadable part stays as it is, and so do the others of its group.
func mergeParts[T row](dir string, group []part, cutoff int64) error {
	to := part{group[0].table, group[0].first, group[len(group)-1].last}
	seen, kept := map[key]bool{}, 0
	repeats := to.table != "usage" // samples have keys of their own
	err := write(dir, to, func(put func([]T) error) error {
		for _, p := range slices.Backward(group) {
			err := readFile(dir, p, func(rows []T) error {
				rows = slices.DeleteFunc(rows, func(r T) bool {
					k := keyOf(&r)
					if repeats && seen[k] {
						return true
					}
					if repeats {
						seen[k] = true
					}
					return over(&r) > 0 && over(&r) < cutoff
				})
				kept += len(rows)
				return put(rows)
			}, func(err error) error { return err })
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, p := range group {
		if p == to && kept > 0 {
			continue
		}
		if err := os.Remove(filepath.Join(dir, p.file())); err != nil {
			return err
		}
	}
	return nil
}

// over returns when a row ceased to matter; 0 if it still does.
func over[T row](r *T) int64 {
	switch x := any(r).(type) {
	case *Pod:
		return x.Ended
	case *Node:
		return x.To
	case *Object:
		return x.To
	case *Sample:
		return x.Time
	}
	return 0
}
