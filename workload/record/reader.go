package record

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"
)

// Record is a record that is read. Parts and rows that are damaged are left out; see Damaged.
type Record struct {
	dir     string
	parts   []part
	damaged []string
}

// Is reports whether a path is a folder with a record.
func Is(path string) bool {
	info, err := os.Stat(path)
	if err != nil || !info.IsDir() {
		return false
	}
	parts, _, err := list(path)
	return err == nil && len(parts) > 0
}

// Open opens a record. Nothing is read before a table is requested. A record may be read while it is written; it then has the flushed rows.
func Open(dir string) (*Record, error) {
	parts, _, err := list(dir)
	if err != nil {
		return nil, err
	}
	if len(parts) == 0 {
		return nil, fmt.Errorf("%s: the folder has no part of a record, such as pods-000001.parquet", dir)
	}
	return &Record{dir: dir, parts: parts}, nil
}

// Damaged lists the parts, and the number of rows in other parts, that could not be read so far, and why.
func (r *Record) Damaged() []string { return r.damaged }

// Pods returns all pods by their arrival.
func (r *Record) Pods() ([]Pod, error) {
	out, err := fold[Pod](r)
	slices.SortStableFunc(out, func(a, b Pod) int {
		return cmp.Or(cmp.Compare(a.Arrived, b.Arrived), cmp.Compare(a.UID, b.UID))
	})
	return out, err
}

// Nodes returns the states of all nodes, by name and then by time.
func (r *Record) Nodes() ([]Node, error) {
	out, err := fold[Node](r)
	slices.SortFunc(out, func(a, b Node) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.From, b.From)) })
	return out, err
}

// Objects returns the states of all objects, by kind, namespace, name and time.
func (r *Record) Objects() ([]Object, error) {
	out, err := fold[Object](r)
	slices.SortFunc(out, func(a, b Object) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name),
			cmp.Compare(a.From, b.From))
	})
	return out, err
}

// Runs returns the recorded times, by their beginning.
func (r *Record) Runs() ([]Run, error) {
	out, err := fold[Run](r)
	slices.SortFunc(out, func(a, b Run) int { return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.ID, b.ID)) })
	return out, err
}

// Samples calls each with all measurements, roughly by time. There may be too many to hold.
func (r *Record) Samples(each func(Sample) error) error {
	return scan(r, func(rows []Sample) error {
		for _, s := range rows {
			if err := each(s); err != nil {
				return err
			}
		}
		return nil
	})
}

// fold returns the last row of each key.
func fold[T row](r *Record) ([]T, error) {
	var out []T
	at := map[key]int{}
	err := scan(r, func(rows []T) error {
		for _, x := range rows {
			if p, ok := any(&x).(*Pod); ok {
				p.Intern()
			}
			k := keyOf(&x)
			if i, ok := at[k]; ok {
				out[i] = x
				continue
			}
			at[k] = len(out)
			out = append(out, x)
		}
		return nil
	})
	return out, err
}

// scan calls each with the rows of a table, part after part. A part that cannot be read counts up to there. Rows that Check
// refuses are left out.
func scan[T row](r *Record, each func([]T) error) error {
	var stop error
	for _, p := range r.parts {
		if p.table != tableOf[T]() {
			continue
		}
		refused, first := 0, error(nil)
		err := readFile(r.dir, p, func(rows []T) error {
			stop = each(rows)
			return stop
		}, func(err error) error {
			refused, first = refused+1, cmp.Or(first, err)
			return nil
		})
		switch {
		case stop != nil:
			return stop
		case errors.Is(err, errVersion):
			return err
		case err != nil:
			r.damage(err.Error())
		}
		if refused > 0 {
			r.damage(fmt.Sprintf("%s: rows: %d, such as %v", filepath.Join(r.dir, p.file()), refused, first))
		}
	}
	return nil
}

// damage notes what could not be read, once.
func (r *Record) damage(what string) {
	if !slices.Contains(r.damaged, what) {
		r.damaged = append(r.damaged, what)
	}
}

// readFile reads a part of a folder as read does. Errors begin with the file's path.
func readFile[T row](dir string, p part, each func([]T) error, bad func(error) error) error {
	path := filepath.Join(dir, p.file())
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close() // it is only read
	info, err := f.Stat()
	if err == nil {
		err = read(f, info.Size(), each, bad)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// State holds a record's objects that had not ended when it was last written.
type State struct {
	Pods    []Pod // that were not deleted, as far as is known; they may have ended
	Nodes   []Node
	Objects []Object
}

// Unfinished returns the pods, nodes and objects that were there at the end of the record.
func (r *Record) Unfinished() (s State, err error) {
	var errs [3]error
	s.Pods, errs[0] = r.Pods()
	s.Nodes, errs[1] = r.Nodes()
	s.Objects, errs[2] = r.Objects()
	s.Pods = slices.Clip(slices.DeleteFunc(s.Pods, func(p Pod) bool { return p.Ended != 0 }))
	s.Nodes = slices.DeleteFunc(s.Nodes, func(n Node) bool { return n.To != 0 })
	s.Objects = slices.DeleteFunc(s.Objects, func(o Object) bool { return o.To != 0 })
	return s, errors.Join(errs[:]...)
}

// part names a file of a record.
type part struct {
	table       string
	first, last int // numbers of the flushes in it
}

func (p part) file() string {
	if p.first == p.last {
		return fmt.Sprintf("%s-%06d.parquet", p.table, p.first)
	}
	return fmt.Sprintf("%s-%06d-%06d.parquet", p.table, p.first, p.last)
}

// covers reports whether p replaces q.
func (p part) covers(q part) bool {
	return p.table == q.table && p != q && p.first <= q.first && q.last <= p.last
}

var partName = regexp.MustCompile(`^(pods|nodes|objects|usage|runs)-([0-9]{6,9})(?:-([0-9]{6,9}))?\.parquet$`)

// parse returns the part that a file name means; ok is false if it means none.
func parse(file string) (p part, ok bool) {
	m := partName.FindStringSubmatch(file)
	if m == nil {
		return part{}, false
	}
	p.table = m[1]
	p.first, _ = strconv.Atoi(m[2]) // nine digits at most
	p.last = p.first
	if m[3] != "" {
		p.last, _ = strconv.Atoi(m[3])
	}
	return p, p.first <= p.last
}

// list returns the parts in a folder in the order of their flushes, and those among its files that others replace.
func list(dir string) (parts, replaced []part, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, nil, err
	}
	var all []part
	for _, e := range entries {
		if p, ok := parse(e.Name()); ok && e.Type().IsRegular() {
			all = append(all, p)
		}
	}
	for _, p := range all {
		if slices.ContainsFunc(all, func(q part) bool { return q.covers(p) }) {
			replaced = append(replaced, p)
		} else {
			parts = append(parts, p)
		}
	}
	slices.SortFunc(parts, func(a, b part) int { return cmp.Or(cmp.Compare(a.table, b.table), cmp.Compare(a.first, b.first)) })
	return parts, replaced, nil
}

// Keys of the metadata of a file.
const (
	versionKey = "gnnsched.record.version"
	tableKey   = "gnnsched.record.table"
)

// groupRows is the largest number of rows in a row group. It bounds the memory of writers and readers.
const groupRows = 1 << 16

// batch is the number of rows per read or write.
const batch = 512

// write writes a part: give calls its argument with the rows, a batch at a time. The file has its name only when it is
// complete and on the disk.
func write[T row](dir string, p part, give func(func([]T) error) error) (err error) {
	f, err := os.CreateTemp(dir, ".part-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close(), os.Remove(f.Name()))
		}
	}()
	w := parquet.NewGenericWriter[T](f, parquet.Compression(&zstd.Codec{}), parquet.MaxRowsPerRowGroup(groupRows),
		parquet.KeyValueMetadata(versionKey, strconv.Itoa(version)), parquet.KeyValueMetadata(tableKey, p.table),
		parquet.CreatedBy("gnnsched", strconv.Itoa(version), ""))
	if err := give(func(rows []T) error { _, err := w.Write(rows); return err }); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	if err := toDisk(f); err != nil {
		return err
	}
	to := filepath.Join(dir, p.file())
	if err := os.Rename(f.Name(), to); err != nil {
		return err
	}
	f.Close() // it is synced
	return syncDir(dir)
}

// toDisk waits until a file is on the disk. Tests do not wait.
var toDisk = (*os.File).Sync

// syncDir makes the names in a folder durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(toDisk(d), d.Close())
}

// errVersion is the error of a file of another version of the format.
var errVersion = errors.New("another version of the format")

// read calls each with the rows of a part, a batch at a time, in their order. If Check refuses a row, read calls bad with the error: it
// leaves the row out if bad returns nil, else it returns bad's error. For any file it returns an error instead of panicking.
func read[T row](r io.ReaderAt, size int64, each func([]T) error, bad func(error) error) (err error) {
	defer func() {
		if p := recover(); p != nil { // the library panics on some malformed files
			err = fmt.Errorf("malformed Parquet: %v", p)
		}
	}()
	f, err := parquet.OpenFile(r, size, parquet.SkipBloomFilters(true), parquet.SkipPageIndex(true))
	if err != nil {
		return err
	}
	if err := described[T](f, size); err != nil {
		return err
	}
	rows := parquet.NewGenericReader[T](f)
	defer rows.Close()
	buf := make([]T, batch)
	for n := 0; ; {
		clear(buf)
		got, err := rows.Read(buf)
		good := buf[:0]
		for i := range buf[:got] {
			if err := Check(&buf[i]); err == nil {
				good = append(good, buf[i])
			} else if err := bad(fmt.Errorf("row %d: %w", n+i+1, err)); err != nil {
				return err
			}
		}
		if err := each(good); err != nil {
			return err
		}
		n += got
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("after row %d: %w", n, err)
		case got == 0:
			return errors.New("the file ends within a row group")
		}
	}
}

// described checks the metadata of a file.
func described[T row](f *parquet.File, size int64) error {
	found, ok := f.Lookup(versionKey)
	if !ok {
		return fmt.Errorf("not part of a record: the metadata has no %s", versionKey)
	}
	if found != strconv.Itoa(version) {
		return fmt.Errorf("%w: %q, and this program reads %d", errVersion, found, version)
	}
	if table, _ := f.Lookup(tableKey); table != tableOf[T]() {
		return fmt.Errorf("the metadata says table %q", table)
	}
	for _, g := range f.Metadata().RowGroups {
		for _, c := range g.Columns {
			// A page of equal values packs a thousandfold; more would be a bomb.
			if m := c.MetaData; m.TotalUncompressedSize < 0 || m.TotalCompressedSize < 0 ||
				m.TotalUncompressedSize > 1<<20+m.TotalCompressedSize*100_000 || m.TotalCompressedSize > size {
				return fmt.Errorf("column %v: %d bytes that unpack to %d", m.PathInSchema, m.TotalCompressedSize, m.TotalUncompressedSize)
			}
		}
		if g.NumRows < 0 || g.NumRows > groupRows*16 {
			return fmt.Errorf("%d rows in a row group", g.NumRows)
		}
	}
	return nil
}

// pending holds the rows of one table that no file has yet, in the order of their last change.
type pending[T row] struct {
	rows []T
	at   map[key]int // index in rows
	lost int64       // rows that were dropped
}

// put adds a row, or replaces the pending row of its key.
func (p *pending[T]) put(r T) {
	k := keyOf(&r)
	if i, ok := p.at[k]; ok {
		p.rows[i] = r
		return
	}
	if p.at == nil {
		p.at = map[key]int{}
	}
	p.at[k] = len(p.rows)
	p.rows = append(p.rows, r)
}

// add adds a row whose key is new.
func (p *pending[T]) add(r T) { p.rows = append(p.rows, r) }

// drop drops the oldest rows, a quarter of the limit at a time, if there are more than the limit.
func (p *pending[T]) drop(limit int) {
	if len(p.rows) <= limit {
		return
	}
	n := len(p.rows) - limit + limit/4
	p.lost += int64(n)
	p.rows = slices.Delete(p.rows, 0, n)
	if p.at == nil {
		return
	}
	clear(p.at)
	for i := range p.rows {
		p.at[keyOf(&p.rows[i])] = i
	}
}

// flush writes the rows as one part, if there are any, and then forgets them.
func (p *pending[T]) flush(dir string, number int) (written int, err error) {
	if len(p.rows) == 0 {
		return 0, nil
	}
	err = write(dir, part{tableOf[T](), number, number}, func(put func([]T) error) error { return put(p.rows) })
	if err != nil {
		return 0, err
	}
	written = len(p.rows)
	clear(p.rows)
	p.rows, p.at = p.rows[:0], nil
	return written, nil
}
