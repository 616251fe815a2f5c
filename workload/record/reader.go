package record

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
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
