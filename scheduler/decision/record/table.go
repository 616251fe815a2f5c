package record

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// A row group is written when it has groupRows rows, or when its first row is groupAge old: a crash loses at most that much.
const (
	groupRows = 1024
	groupAge  = 5 * time.Minute
	maxGroups = 512 // of a file; the footer, which is written with each group, lists them all
)

// versionKey is the metadata's key of schemaVersion.
const versionKey = "gnnsched.decisions.schema"

// table is a journal in Parquet. After each row group it writes a footer that lists all groups so far, and it never overwrites: the file is
// complete after every group, and a truncated file is complete up to its last whole footer. The footers before the last one are dead bytes.
type table struct {
	path  string
	now   func() time.Time
	after func(time.Duration, func()) (stop func() bool) // calls a function once in another goroutine

	mu sync.Mutex
	losses
	file    *os.File // nil until the next group
	size    int64
	meta    format.FileMetaData
	writer  *parquet.GenericWriter[row] // nil until the first group
	buffer  bytes.Buffer                // what writer writes to
	pending []row
	stop    func() bool // the timer of the pending rows
	limit   int64       // of size, above which a new file begins
}

// openTable opens a file. The next group replaces the remains of a killed process behind the last whole group.
func openTable(path string, failed func(err error, lost uint64)) (*table, error) {
	after := func(d time.Duration, f func()) func() bool { return time.AfterFunc(d, f).Stop }
	t := &table{path: path, now: time.Now, after: after, losses: losses{failed: failed}, limit: maxMegabytes << 20}
	if err := t.open(); err != nil {
		return nil, err
	}
	return t, nil
}

// open opens the file and reads its footer.
func (t *table) open() (err error) {
	f, err := os.OpenFile(t.path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close())
		}
	}()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is not a regular file", t.path)
	}
	t.size, t.meta = 0, format.FileMetaData{}
	if info.Size() > 0 {
		whole, meta, err := lastWhole(f, info.Size())
		if err != nil {
			return fmt.Errorf("%s: %w", t.path, err)
		}
		if meta != nil {
			t.size, t.meta = whole, *meta
		}
	}
	t.file = f
	return nil
}

// write implements Journal.
func (t *table) write(r Record) {
	out, err := rowOf(&r)
	if err != nil { // a score that is not finite, which no policy may give
		t.failed(fmt.Errorf("write a decision: %w", err), 1)
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.pending = append(t.pending, out); len(t.pending) == 1 {
		t.stop = t.after(groupAge, t.flush)
	}
	if len(t.pending) >= groupRows {
		t.group()
	}
}

// flush writes the pending rows.
func (t *table) flush() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.group()
}

// group writes the pending rows as a row group. Rows that cannot be written are lost.
func (t *table) group() {
	if len(t.pending) == 0 {
		return
	}
	t.stop()
	n := uint64(len(t.pending))
	err := t.append(t.pending)
	t.pending = t.pending[:0]
	if err != nil {
		err = fmt.Errorf("write decisions: %w", err)
	}
	t.wrote(n, err)
}

// append adds a row group and a footer to the file.
func (t *table) append(rows []row) error {
	if t.file == nil {
		if err := t.open(); err != nil {
			return err
		}
	}
	if t.size >= t.limit || len(t.meta.RowGroups) >= maxGroups {
		if err := t.rotate(); err != nil {
			return err
		}
	}
	text, meta, err := t.encode(rows)
	if errors.Is(err, errColumns) {
		if err = t.rotate(); err == nil {
			text, meta, err = t.encode(rows)
		}
	}
	if err != nil {
		return err
	}
	if err := t.file.Truncate(t.size); err != nil { // a partial group
		return err
	}
	if _, err := t.file.WriteAt(text, t.size); err != nil {
		return errors.Join(err, t.file.Truncate(t.size))
	}
	t.size, t.meta = t.size+int64(len(text)), meta
	return nil
}

// errColumns means that the file has other columns than the rows: another release of the program wrote it.
var errColumns = errors.New("the file has other columns")

// encode returns what follows the file: the rows, and a footer that lists them behind the groups of before. The bytes are valid until
// the next call.
func (t *table) encode(rows []row) ([]byte, format.FileMetaData, error) {
	out, before := &t.buffer, t.meta
	out.Reset()
	if t.writer == nil {
		options := []parquet.WriterOption{
			parquet.Compression(&zstd.Codec{Level: zstd.SpeedFastest}), parquet.KeyValueMetadata(versionKey, strconv.Itoa(schemaVersion)),
			parquet.CreatedBy("gnnsched", strconv.Itoa(schemaVersion), ""),
		}
		for _, c := range longColumns {
			options = append(options, parquet.SkipPageBounds(c))
		}
		t.writer = parquet.NewGenericWriter[row](out, options...)
	}
	w := t.writer
	w.Reset(out)
	_, err := w.Write(rows)
	if err := errors.Join(err, w.Close()); err != nil {
		t.writer = nil
		return nil, before, err
	}
	alone, err := parquet.OpenFile(bytes.NewReader(out.Bytes()), int64(out.Len()), parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true))
	if err != nil {
		return nil, before, err
	}
	meta := *alone.Metadata()
	if len(before.RowGroups) > 0 && !reflect.DeepEqual(before.Schema, meta.Schema) {
		return nil, before, errColumns
	}
	for g := range meta.RowGroups {
		shift(&meta.RowGroups[g], t.size, int16(len(before.RowGroups)))
	}
	meta.RowGroups = append(slices.Clip(before.RowGroups), meta.RowGroups...)
	meta.NumRows += before.NumRows
	out.Truncate(out.Len() - tail - footerLength(out.Bytes()))
	footer, err := thrift.Marshal(new(thrift.CompactProtocol), &meta)
	if err != nil {
		return nil, before, err
	}
	out.Write(footer)
	out.Write(binary.LittleEndian.AppendUint32(nil, uint32(len(footer))))
	out.WriteString(magic)
	return out.Bytes(), meta, nil
}

// shift moves a row group by some bytes and numbers it. It drops the page index: readers expect the page indexes of all groups in one
// place.
func shift(g *format.RowGroup, by int64, number int16) {
	g.FileOffset, g.Ordinal = g.FileOffset+by, number
	for i := range g.Columns {
		c := &g.Columns[i]
		c.OffsetIndexOffset, c.OffsetIndexLength, c.ColumnIndexOffset, c.ColumnIndexLength = 0, 0, 0, 0
		for _, offset := range []*int64{
			&c.FileOffset, &c.MetaData.DataPageOffset, &c.MetaData.IndexPageOffset, &c.MetaData.DictionaryPageOffset,
		} {
			if *offset != 0 {
				*offset += by
			}
		}
	}
}

// rotate renames the full file and deletes the oldest ones.
func (t *table) rotate() error {
	err := t.file.Close()
	t.file = nil
	stem := strings.TrimSuffix(t.path, ".parquet") + "-"
	backup := stem + t.now().UTC().Format("2006-01-02T15-04-05.000000") + ".parquet"
	if err := errors.Join(err, os.Rename(t.path, backup)); err != nil {
		return err
	}
	old, err := filepath.Glob(escape(stem) + "[0-9][0-9][0-9][0-9]-*T*.parquet")
	if err != nil {
		return err
	}
	slices.Sort(old)
	for _, path := range old[:max(len(old)-maxBackups, 0)] {
		err = errors.Join(err, os.Remove(path))
	}
	return errors.Join(err, t.open())
}

// escape makes a path a pattern of filepath.Glob that matches it alone.
func escape(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

// Close implements Journal.
func (t *table) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.group()
	if t.file == nil {
		return nil
	}
	err := t.file.Close()
	t.file = nil
	return err
}
