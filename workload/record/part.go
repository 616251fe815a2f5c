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
