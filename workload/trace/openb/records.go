package openb

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/jszwec/csvutil"

	"gnnsched/internal/files"
)

// Records reads the records of one file.
type Records struct {
	// Names of the columns, set by the caller once the header is known. Cells of the columns
	// "name" and "action" are never emptied.
	Names []string

	csv    *csv.Reader
	unread []string // the next record; nil if Unread was not called
	begun  bool     // a record was read, so FieldPos has a position
	fields int      // number of fields in the last record
}

// NewRecords returns a Records of the CSV in r.
func NewRecords(r io.Reader) *Records {
	b := bufio.NewReader(files.Lines(r))
	if bom, err := b.Peek(3); err == nil && string(bom) == "\xef\xbb\xbf" {
		b.Discard(3) // cannot fail: the bytes are in the buffer
	}
	c := csv.NewReader(b)
	c.FieldsPerRecord = -1 // any number
	c.TrimLeadingSpace = true
	c.Comment = '#'
	return &Records{csv: c}
}

// Read implements csvutil.Records.
func (r *Records) Read() ([]string, error) {
	if rec := r.unread; rec != nil {
		r.unread = nil
		return r.empty(rec), nil
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
			return r.empty(rec), nil
		}
	}
}

// Unread makes the next Read return the record again. Callers use it if the first record is not
// a header.
func (r *Records) Unread(record []string) { r.unread = record }

// empty replaces Python's words for no value by empty cells.
func (r *Records) empty(rec []string) []string {
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

// FieldPos implements the interface by which csvutil names places in its errors: it returns the place of
// a cell of the last record.
func (r *Records) FieldPos(i int) (line, column int) { return r.csv.FieldPos(i) }

// First reads the first record. names are its cells as column names: in lower case, with
// underscores for spaces.
func (r *Records) First() (record, names []string, err error) {
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

// Check returns an error if a needed column is missing or any column is there twice. kind names
// this kind of file in the error, and known lists all of its columns.
func (r *Records) Check(kind string, needed, known []string) error {
	for i, c := range r.Names {
		if c != "" && slices.Contains(r.Names[:i], c) {
			return fmt.Errorf("column %s is there twice", c)
		}
	}
	for _, c := range needed {
		if !slices.Contains(r.Names, c) {
			return fmt.Errorf("column %s is missing; %s has the columns %s", c, kind, strings.Join(known, ", "))
		}
	}
	return nil
}

// Locate adds file, line and column to an error about the last record. column names the wrong
// column if err does not; empty means the whole record.
func (r *Records) Locate(file, column string, err error) error {
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
		return fmt.Errorf("%s:%d: the row has %d fields, not %d", file, line, r.fields, len(r.Names))
	}
	at := max(slices.Index(r.Names, column), 0)
	line, col := r.FieldPos(at)
	if column == "" {
		return fmt.Errorf("%s:%d: %w", file, line, err)
	}
	return fmt.Errorf("%s:%d:%d: %s: %w", file, line, col, column, err)
}

// Each decodes the rows below the header, whose columns are Names, and calls take with each. On an error, take also returns the wrong
// column. Errors begin with file, line and column.
func Each[R any](rows *Records, file string, take func(R) (column string, err error)) error {
	dec, err := csvutil.NewDecoder(rows, rows.Names...)
	if err != nil {
		return rows.Locate(file, "", err)
	}
	for {
		var row R
		if err := dec.Decode(&row); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return rows.Locate(file, "", err)
		}
		if column, err := take(row); err != nil {
			return rows.Locate(file, column, err)
		}
	}
}

// Whole returns a cell with a whole number without the zeros after its point: pandas writes 8.0 for 8 if the column has an empty cell.
func Whole(cell string) string {
	if whole, zeros, ok := strings.Cut(cell, "."); ok && zeros != "" && strings.Trim(zeros, "0") == "" {
		return whole
	}
	return cell
}
