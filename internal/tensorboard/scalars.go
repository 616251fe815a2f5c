package tensorboard

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
)

// ScalarsFile is the name of the CSV in the folder of a run. It has the columns step, tag and value, and
// one row for each call of Scalar.
const ScalarsFile = "scalars.csv"

var header = []string{"step", "tag", "value"}

// scalars is the open CSV.
type scalars struct{ file *os.File }

// openScalars opens the CSV for appending. It drops an incomplete last line, which a killed run may have
// left.
func openScalars(dir string) (*scalars, error) {
	f, err := os.OpenFile(filepath.Join(dir, ScalarsFile), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	s := &scalars{f}
	content, err := io.ReadAll(f)
	if err == nil {
		whole := content[:bytes.LastIndexByte(content, '\n')+1]
		err = s.cut(len(whole))
		if err == nil && len(whole) == 0 {
			err = s.row(header)
		}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return s, nil
}

// cut truncates the file to n bytes and continues there.
func (s *scalars) cut(n int) error {
	if err := s.file.Truncate(int64(n)); err != nil {
		return err
	}
	_, err := s.file.Seek(int64(n), io.SeekStart)
	return err
}

func (s *scalars) add(step int, tag string, v float64) error {
	return s.row([]string{strconv.Itoa(step), tag, strconv.FormatFloat(v, 'g', -1, 64)})
}

// row writes a row in one call, so that a kill between two rows leaves only complete ones.
func (s *scalars) row(fields []string) error {
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	if err := w.Write(fields); err != nil {
		return err
	}
	if w.Flush(); w.Error() != nil {
		return w.Error()
	}
	_, err := s.file.Write(b.Bytes())
	return err
}

// rewind removes the first row with a later step than the given one, and all rows after it. Steps never
// decrease within a run, so these are all rows of later steps.
func (s *scalars) rewind(step int) error {
	if _, err := s.file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	r := csv.NewReader(s.file)
	r.FieldsPerRecord = len(header)
	for first := true; ; first = false {
		at := r.InputOffset()
		row, err := r.Read()
		if errors.Is(err, io.EOF) {
			return s.cut(int(at))
		}
		if err != nil {
			return err
		}
		if first {
			continue
		}
		had, err := strconv.Atoi(row[0])
		if err != nil {
			return fmt.Errorf("%s: step %q is not a number", ScalarsFile, row[0])
		}
		if had > step {
			return s.cut(int(at))
		}
	}
}
