package record

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"
)

// A Parquet file ends with the length of its footer in four bytes and with magic, which it also begins with.
const (
	magic = "PAR1"
	tail  = 4 + len(magic)
)

// footerLength returns the length of the footer at the end of a file; negative or absurd if it is none.
func footerLength(end []byte) int {
	return int(binary.LittleEndian.Uint32(end[len(end)-tail:]))
}

// lastWhole returns the size up to which a file is whole, and the footer there; nil if no footer is whole. It returns an error if the file
// holds no decisions.
func lastWhole(r io.ReaderAt, size int64) (int64, *format.FileMetaData, error) {
	head := make([]byte, min(size, int64(len(magic))))
	if _, err := r.ReadAt(head, 0); err != nil {
		return 0, nil, err
	}
	if string(head) != magic[:len(head)] {
		return 0, nil, errors.New("it is no Parquet file")
	}
	var wrong error
	for end := size; end > int64(len(magic)); {
		f, err := opened(r, end)
		switch {
		case err == nil:
			return end, f.Metadata(), nil
		case errors.Is(err, errOther): // another table, or another version of this one
			wrong = err
		}
		if end, err = previous(r, end-1); err != nil {
			return 0, nil, err
		}
	}
	return 0, nil, wrong
}

// previous returns the highest end of magic that is at most end; 0 if there is none.
func previous(r io.ReaderAt, end int64) (int64, error) {
	const step = 1 << 16
	for end >= int64(len(magic)) {
		from := max(end-step, 0)
		part := make([]byte, end-from)
		if _, err := r.ReadAt(part, from); err != nil && !errors.Is(err, io.EOF) {
			return 0, err
		}
		for i := len(part); i >= len(magic); i-- {
			if string(part[i-len(magic):i]) == magic {
				return from + int64(i), nil
			}
		}
		if from == 0 {
			break
		}
		end = from + int64(len(magic)) - 1 // magic may lie across the border
	}
	return 0, nil
}

// errOther is the error of a Parquet file that holds something else.
var errOther = errors.New("it holds no decisions that this version reads")

// opened opens the part of a file up to end. It never panics.
func opened(r io.ReaderAt, end int64) (f *parquet.File, err error) {
	defer func() {
		if p := recover(); p != nil { // the library panics on some malformed files
			f, err = nil, fmt.Errorf("malformed Parquet: %v", p)
		}
	}()
	last := make([]byte, tail)
	if end < int64(len(magic)+tail) {
		return nil, errors.New("too short")
	}
	if _, err := r.ReadAt(last, end-int64(tail)); err != nil {
		return nil, err
	}
	if n := footerLength(last); string(last[4:]) != magic || int64(n) > end-int64(len(magic)+tail) {
		return nil, errors.New("no footer")
	}
	f, err = parquet.OpenFile(io.NewSectionReader(r, 0, end), end, parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true))
	if err != nil {
		return nil, err
	}
	if v, ok := f.Lookup(versionKey); !ok || v != strconv.Itoa(schemaVersion) {
		return nil, fmt.Errorf("%w: schema %q, want %d", errOther, short(v, maxReason), schemaVersion)
	}
	return f, checkGroups(f, end)
}

// checkGroups refuses row groups that no Journal writes. A page of equal values packs a thousandfold; more would be a bomb.
func checkGroups(f *parquet.File, size int64) error {
	for _, g := range f.Metadata().RowGroups {
		if g.NumRows < 0 || g.NumRows > groupRows {
			return fmt.Errorf("%w: a group of %d rows", errOther, g.NumRows)
		}
		for _, c := range g.Columns {
			if m := c.MetaData; m.TotalUncompressedSize < 0 || m.TotalCompressedSize < 0 || m.TotalCompressedSize > size ||
				m.TotalUncompressedSize > 1<<20+m.TotalCompressedSize*10_000 {
				return fmt.Errorf("%w: %d bytes that unpack to %d", errOther, m.TotalCompressedSize, m.TotalUncompressedSize)
			}
		}
	}
	return nil
}

// isTable reports whether a file begins as a Parquet file does.
func isTable(f *os.File) bool {
	head := make([]byte, len(magic))
	_, err := f.ReadAt(head, 0)
	return err == nil && string(head) == magic
}

// readTable calls each with the records of a Parquet file, in their order. If the file is cut off, it reads up to the last whole row group,
// and cut is true.
func readTable(f *os.File, each func(Record)) (cut bool, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("malformed Parquet: %v", p)
		}
	}()
	info, err := f.Stat()
	if err != nil {
		return false, err
	}
	end, _, err := lastWhole(f, info.Size())
	if err != nil {
		return false, err
	}
	if end == 0 {
		return true, nil
	}
	file, err := opened(f, end)
	if err != nil {
		return false, err
	}
	rows := parquet.NewGenericReader[row](file)
	defer rows.Close()
	buf := make([]row, 64)
	for n := 0; ; {
		clear(buf)
		got, err := rows.Read(buf)
		for i := range buf[:got] {
			r, err := buf[i].record()
			if err != nil {
				return false, fmt.Errorf("row %d: %w", n+i+1, err)
			}
			each(r)
		}
		n += got
		switch {
		case errors.Is(err, io.EOF):
			return end < info.Size(), nil
		case err != nil:
			return false, fmt.Errorf("after row %d: %w", n, err)
		case got == 0:
			return false, errors.New("the file ends within a row group")
		}
	}
}
