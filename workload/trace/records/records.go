// Package records reads the CSV files that people and other programs write: it forgives how
// they are laid out and says in which file, line and column something is wrong.
//
// A [Reader] feeds csvutil with trimmed records that are not blank. It skips a byte order
// mark and lines that begin with '#', and takes Python's words for an empty cell as that.
package records

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/jszwec/csvutil"
)

// Reader reads the records of one file.
type Reader struct {
	// Names of the columns, once the header is known. What stands in the columns "name" and
	// "action" is never taken for an empty cell.
	Names []string

	csv    *csv.Reader
	again  []string
	begun  bool // a record has been read, so there is a position
	fields int  // in the record read last
}

// New returns a reader of r.
func New(r io.Reader) *Reader {
	b := bufio.NewReader(r)
	if bom, err := b.Peek(3); err == nil && string(bom) == "\xef\xbb\xbf" {
		b.Discard(3) // nothing to fail: these bytes are in the buffer
	}
	c := csv.NewReader(b)
	c.FieldsPerRecord, c.TrimLeadingSpace, c.Comment = -1, true, '#'
	return &Reader{csv: c}
}

// Read implements csvutil.Reader.
func (r *Reader) Read() ([]string, error) {
	if again := r.again; again != nil {
		r.again = nil
		return r.emptied(again), nil
	}
	for {
		rec, err := r.csv.Read()
		if err != nil {
			return nil, err
		}
		blank := true
		for i, s := range rec {
			rec[i] = strings.TrimSpace(s)
			blank = blank && rec[i] == ""
		}
		if !blank {
			r.begun, r.fields = true, len(rec)
			return r.emptied(rec), nil
		}
	}
}

// Unread has the next Read return a record once more, one that turned out not to be a header.
func (r *Reader) Unread(record []string) { r.again = record }

// emptied empties the cells that hold one of Python's words for an empty cell.
func (r *Reader) emptied(rec []string) []string {
	for i, s := range rec {
		if i >= len(r.Names) || r.Names[i] == "name" || r.Names[i] == "action" {
			continue
		}
		switch strings.ToLower(s) {
		case "nan", "none", "null":
			rec[i] = ""
		}
	}
	return rec
}

// FieldPos lets csvutil say where a wrong cell stands.
func (r *Reader) FieldPos(i int) (line, column int) { return r.csv.FieldPos(i) }

// First reads the first record and returns it beside the column names that it holds if it is
// a header: lower case, underscores for spaces.
func (r *Reader) First() (record, names []string, err error) {
	record, err = r.Read()
	if errors.Is(err, io.EOF) {
		return nil, nil, errors.New("the file is empty")
	}
	if err != nil {
		return nil, nil, err
	}
	names = make([]string, len(record))
	for i, s := range record {
		names[i] = strings.ToLower(strings.ReplaceAll(s, " ", "_"))
	}
	return record, names, nil
}

// Check wants each of the needed columns, and none twice; file is what such a file is
// called and known the columns that it may have.
func (r *Reader) Check(file string, needed, known []string) error {
	for i, c := range r.Names {
		if c != "" && slices.Contains(r.Names[:i], c) {
			return fmt.Errorf("column %s is there twice", c)
		}
	}
	for _, c := range needed {
		if !slices.Contains(r.Names, c) {
			return fmt.Errorf("column %s is missing; %s has the columns %s", c, file, strings.Join(known, ", "))
		}
	}
	return nil
}

// Locate puts file, line and column in front of an error about the record read last. column
// names the wrong column where err does not know it; empty means the whole record.
func (r *Reader) Locate(file, column string, err error) error {
	var cell *csvutil.DecodeError
	var syntax *csv.ParseError
	switch {
	case errors.As(err, &cell):
		return fmt.Errorf("%s:%d:%d: %s: %w", file, cell.Line, cell.Column, cell.Field, cell.Err)
	case errors.As(err, &syntax):
		return fmt.Errorf("%s:%d:%d: %w", file, syntax.Line, syntax.Column, syntax.Err)
	case !r.begun:
		return fmt.Errorf("%s: %w", file, err)
	case errors.Is(err, csvutil.ErrFieldCount):
		line, _ := r.FieldPos(0)
		return fmt.Errorf("%s:%d: it has %d fields where %d are due", file, line, r.fields, len(r.Names))
	}
	at := max(slices.Index(r.Names, column), 0)
	line, col := r.FieldPos(at)
	if column == "" {
		return fmt.Errorf("%s:%d: %w", file, line, err)
	}
	return fmt.Errorf("%s:%d:%d: %s: %w", file, line, col, column, err)
}
