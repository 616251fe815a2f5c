package workload

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/jszwec/csvutil"

	"gnnsched/scheduler/cluster"
)

// Replay is a plan read from a CSV, and what a person should know about how it was read.
type Replay struct {
	Plan
	Notes []string
}

// ReadCSV reads a plan from a CSV that runsim or AAML wrote; file names it in errors, which
// have the form file:line:column.
//
// It is liberal: the header may be missing, its columns may come in any order and beside
// others (such as the row number that pandas puts in front); CPU may be 100m, 0.1 or 1, memory
// 128Mi, 2.0Gi or plain bytes; actions may be spelled in several ways. A second add of a name
// that still lives, which AAML's files have where a reset lay between that they do not
// record, gets a number.
func ReadCSV(r io.Reader, file string) (Replay, error) {
	return readPlan(newRecords(r), file)
}

func readPlan(rows *records, file string) (Replay, error) {
	header, err := rows.header()
	if err != nil {
		return Replay{}, located(file, rows, "", err)
	}
	dec, err := csvutil.NewDecoder(rows, header...)
	if err != nil {
		return Replay{}, located(file, rows, "", err)
	}
	in := reader{live: map[string]live{}, taken: map[string]bool{}}
	for {
		var line row
		if err := dec.Decode(&line); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return Replay{}, located(file, rows, "", err)
		}
		if column, err := in.add(line); err != nil {
			return Replay{}, located(file, rows, column, err)
		}
	}
	if len(in.out.Steps) == 0 {
		return Replay{}, fmt.Errorf("%s: it holds no deployment", file)
	}
	return in.out, nil
}

// reader turns rows into steps.
type reader struct {
	out   Replay
	live  map[string]live // by the name in the file
	taken map[string]bool // names in use, as deployed
}

// live is what a name in the file stands for: the latest Deployment added under it, and
// those that it hides.
type live []Deployment

// add appends what the row says. On an error it names the column that is wrong.
func (in *reader) add(r row) (column string, err error) {
	switch r.Action {
	case nothing:
		return "", nil
	case actionTag(Reset):
		clear(in.live)
		clear(in.taken)
		in.step(Reset, Deployment{})
		return "", nil
	case actionTag(Delete):
		stack := in.live[r.Name]
		if len(stack) == 0 {
			return "name", fmt.Errorf("%q is not deployed at this point, so it cannot be deleted", r.Name)
		}
		d := stack[len(stack)-1]
		in.live[r.Name] = stack[:len(stack)-1]
		delete(in.taken, d.Name)
		in.step(Delete, d)
		return "", nil
	}
	d := r.deployment()
	if err := validName(d.Name); err != nil {
		return "name", err
	}
	if d.Replicas < 1 {
		return "pod_count", fmt.Errorf("a deployment needs 1 pod or more")
	}
	if l, q := d.Shape.Limits, d.Shape.Requests; l.MilliCPU != 0 && l.MilliCPU < q.MilliCPU {
		return "cpu_limit", fmt.Errorf("%s is less than the request of %s", cluster.FormatCPU(l.MilliCPU), cluster.FormatCPU(q.MilliCPU))
	} else if l.Memory != 0 && l.Memory < q.Memory {
		return "mem_limit", fmt.Errorf("%s is less than the request of %s", cluster.FormatMemory(l.Memory), cluster.FormatMemory(q.Memory))
	}
	if in.taken[d.Name] {
		d.Name = numbered(d.Name, in.taken)
		if err := validName(d.Name); err != nil {
			return "name", fmt.Errorf("%q is deployed already, and with a number it is too long", r.Name)
		}
		in.out.Notes = append(in.out.Notes, fmt.Sprintf("%s is added while it is deployed already; the second is called %s", r.Name, d.Name))
	}
	in.taken[d.Name] = true
	in.live[r.Name] = append(in.live[r.Name], d)
	in.step(Add, d)
	return "", nil
}

func (in *reader) step(a Action, d Deployment) {
	in.out.Steps = append(in.out.Steps, Step{Action: a, Deployment: d})
}

func (r row) deployment() Deployment {
	return Deployment{Name: r.Name, Replicas: int(r.PodCount), Shape: Shape{
		Requests: cluster.Resources{MilliCPU: int64(r.CPURequest), Memory: int64(r.MemRequest), Pods: 1},
		Limits:   cluster.Resources{MilliCPU: int64(r.CPULimit), Memory: int64(r.MemLimit)},
	}}
}

// records reads CSV records for csvutil: trimmed, without blank ones, and with the first
// record given back where it turned out to be data.
type records struct {
	csv    *csv.Reader
	again  []string
	names  []string // of the columns
	begun  bool     // a record has been read, so there is a position
	fields int      // in the record read last
}

func newRecords(r io.Reader) *records {
	b := bufio.NewReader(r)
	if bom, err := b.Peek(3); err == nil && string(bom) == "\xef\xbb\xbf" {
		b.Discard(3) // nothing to fail: these bytes are in the buffer
	}
	c := csv.NewReader(b)
	c.FieldsPerRecord, c.TrimLeadingSpace, c.Comment = -1, true, '#'
	return &records{csv: c}
}

// Read implements csvutil.Reader.
func (r *records) Read() ([]string, error) {
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

// emptied empties the cells that hold one of Python's words for an empty cell.
func (r *records) emptied(rec []string) []string {
	for i, s := range rec {
		if i >= len(r.names) || r.names[i] == "name" || r.names[i] == "action" {
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
func (r *records) FieldPos(i int) (line, column int) { return r.csv.FieldPos(i) }

// header reads the first record and returns the column names: the record itself, or the
// usual ones where it is data already.
func (r *records) header() ([]string, error) {
	first, err := r.Read()
	if errors.Is(err, io.EOF) {
		return nil, errors.New("the file is empty")
	}
	if err != nil {
		return nil, err
	}
	r.names = columnNames(first)
	if slices.Contains(r.names, "name") && slices.Contains(r.names, "pod_count") {
		return r.names, r.checkHeader()
	}
	switch len(first) {
	case len(columns):
		r.names = columns
	case len(columns) + 1:
		r.names = append([]string{"row"}, columns...)
	default:
		return nil, fmt.Errorf("this is neither a header nor a deployment; a file has the columns %s", strings.Join(columns, ","))
	}
	r.again = first
	return r.names, nil
}

func columnNames(record []string) []string {
	names := make([]string, len(record))
	for i, s := range record {
		names[i] = strings.ToLower(strings.ReplaceAll(s, " ", "_"))
	}
	return names
}

// checkHeader wants every column but the action once: without requests, pods would be other
// pods than those that were recorded.
func (r *records) checkHeader() error {
	for _, c := range columns {
		n := 0
		for _, have := range r.names {
			if have == c {
				n++
			}
		}
		if n > 1 {
			return fmt.Errorf("column %s is there %d times", c, n)
		}
		if n == 0 && c != "action" {
			return fmt.Errorf("column %s is missing; a file has the columns %s", c, strings.Join(columns, ","))
		}
	}
	return nil
}

// located puts file, line and column in front of an error. column names the wrong column
// where err does not know it.
func located(file string, r *records, column string, err error) error {
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
		return fmt.Errorf("%s:%d: it has %d fields where %d are due", file, line, r.fields, len(r.names))
	}
	at := max(slices.Index(r.names, column), 0)
	line, col := r.FieldPos(at)
	if column == "" {
		return fmt.Errorf("%s:%d: %w", file, line, err)
	}
	return fmt.Errorf("%s:%d:%d: %s: %w", file, line, col, column, err)
}
