package runfolder

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"

	"gnnsched/internal/choice"
	"gnnsched/internal/exit"
	"gnnsched/internal/tensorboard"
)

// Run is the content of a folder.
type Run struct {
	Dir         string
	Manifest    Manifest
	Scenarios   []Scenario
	Verdicts    []Verdict
	Episodes    []Episode
	Differences []Difference
	Frames      []Frame
	Waits       []Waits
	Decisions   []Decision
	Tables      []Table
	Scalars     []Scalar // of the file scalars.csv
	Notes       []string // faults of the files that could be left out
}

// Scalar is a point of a learning curve.
type Scalar struct {
	Tag   string
	Step  float64
	Value float64
}

// rowFiles are the names of the files with rows.
func rowFiles() []string {
	return choice.Names([]Row{Scenario{}, Verdict{}, Episode{}, Difference{}, Frame{}, Waits{}, Decision{}, Table{}}, Row.file)
}

// Read reads a folder. Files may be missing, and the last line of each may be cut off. Anything else that is
// wrong is an error with exit code 2 that names the file and the line.
func Read(dir string) (*Run, error) {
	r := &Run{Dir: dir}
	err := r.readManifest()
	for _, read := range []func() error{
		func() error { return rows(r, &r.Scenarios) },
		func() error { return rows(r, &r.Verdicts) },
		func() error { return rows(r, &r.Episodes) },
		func() error { return rows(r, &r.Differences) },
		func() error { return rows(r, &r.Frames) },
		func() error { return rows(r, &r.Waits) },
		func() error { return rows(r, &r.Decisions) },
		func() error { return rows(r, &r.Tables) },
		r.readScalars,
	} {
		if err == nil {
			err = read()
		}
	}
	if err != nil {
		return nil, exit.New(exit.Usage, err, "name a folder that --out of eval, compare, runsim or gnntrain wrote")
	}
	return r, nil
}

func (r *Run) readManifest() error {
	path := filepath.Join(r.Dir, manifestFile)
	text, err := readFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Stat(filepath.Join(r.Dir, tensorboard.ScalarsFile)); err == nil {
			r.Manifest = Manifest{Schema: schema, Kind: "gnntrain"}
			r.Notes = append(r.Notes, "The folder has no manifest: command, version and seeds are not known.")
			return nil
		}
		return fmt.Errorf("%s is no folder of a run: it has neither %s nor %s", r.Dir, manifestFile, tensorboard.ScalarsFile)
	}
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, &r.Manifest); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if r.Manifest.Schema < 1 || r.Manifest.Schema > schema {
		return fmt.Errorf("%s: schema %d; this program reads 1 to %d", path, r.Manifest.Schema, schema)
	}
	return nil
}

// rows reads the file of a type of row.
func rows[T Row](r *Run, into *[]T) error {
	var zero T
	path := filepath.Join(r.Dir, zero.file())
	text, err := readFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	whole := bytes.LastIndexByte(text, '\n') + 1
	if whole < len(text) {
		r.Notes = append(r.Notes, fmt.Sprintf("The last line of %s was cut off and is left out.", zero.file()))
	}
	lines := bufio.NewScanner(bytes.NewReader(text[:whole]))
	lines.Buffer(nil, maxLine+1)
	for n := 1; lines.Scan(); n++ {
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		var row T
		err := json.Unmarshal(lines.Bytes(), &row)
		if err == nil {
			err = row.check()
		}
		if err != nil {
			return fmt.Errorf("%s:%d: %w", path, n, err)
		}
		*into = append(*into, row)
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// readScalars reads the curves. Values that are no finite numbers are left out.
func (r *Run) readScalars() error {
	path := filepath.Join(r.Dir, tensorboard.ScalarsFile)
	text, err := readFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	in := csv.NewReader(bytes.NewReader(text[:bytes.LastIndexByte(text, '\n')+1]))
	in.FieldsPerRecord = 3
	for first := true; ; first = false {
		row, err := in.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		if first {
			continue
		}
		line, _ := in.FieldPos(0)
		step, err := strconv.ParseFloat(row[0], 64)
		value, err2 := strconv.ParseFloat(row[2], 64)
		if err := errors.Join(err, err2); err != nil {
			return fmt.Errorf("%s:%d: %w", path, line, err)
		}
		if !math.IsNaN(value+step) && !math.IsInf(value+step, 0) {
			r.Scalars = append(r.Scalars, Scalar{Tag: row[1], Step: step, Value: value})
		}
	}
}

// readFile reads a regular file of at most maxFile bytes.
func readFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	if info.Size() > maxFile {
		return nil, fmt.Errorf("%s has %d bytes, more than %d", path, info.Size(), maxFile)
	}
	return os.ReadFile(path)
}
