package openb

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/jszwec/csvutil"
	"k8s.io/apimachinery/pkg/util/validation"

	"gnnsched/workload/trace/records"
)

// amount is a whole number, 0 or more.
type amount int64

func (a *amount) UnmarshalText(b []byte) error {
	s := string(b)
	if whole, zeros, ok := strings.Cut(s, "."); ok && zeros != "" && strings.Trim(zeros, "0") == "" {
		s = whole // pandas writes numbers as 8.0 once a column has an empty cell
	}
	n, err := strconv.ParseInt(s, 10, 64)
	switch {
	case s == "":
		return errors.New("is empty; write a whole number, 0 for none")
	case err != nil:
		return fmt.Errorf("%q is not a whole number", b)
	case n < 0:
		return fmt.Errorf("%d is negative; write 0 or more", n)
	}
	*a = amount(n)
	return nil
}

// seconds is a point in time; NoTime where the cell is empty or the column missing.
type seconds struct {
	value float64
	given bool
}

func (s *seconds) UnmarshalText(b []byte) error {
	x, err := strconv.ParseFloat(string(b), 64)
	switch {
	case err != nil || !(x < 1e12):
		return fmt.Errorf("%q is no time in seconds", b)
	case x < 0:
		return fmt.Errorf("%v is negative; times count from the trace's start", x)
	}
	*s = seconds{value: x, given: true}
	return nil
}

func (s seconds) or(missing float64) float64 {
	if s.given {
		return s.value
	}
	return missing
}

// kind is one of the two sorts of file.
type kind struct {
	name          string   // as errors call it
	needed, known []string // columns
	mark          string   // the column by which it is known from the other sort
}

var (
	nodeList = kind{"an openb node list", nodeColumns, nodeColumns, "sn"}
	podList  = kind{"an openb pod list", podColumns[:5], podColumns, "num_gpu"}

	nodeColumns = []string{"sn", "cpu_milli", "memory_mib", "gpu", "model"}
	podColumns  = []string{"name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "gpu_spec", "qos", "pod_phase", "creation_time", "deletion_time", "scheduled_time"}
)

// IsPodList tells by the names of its columns, in lower case, whether a CSV is a pod list.
func IsPodList(columns []string) bool {
	return slices.Contains(columns, "num_gpu") && slices.Contains(columns, "gpu_milli")
}

// IsNodeList tells likewise whether it is a node list.
func IsNodeList(columns []string) bool {
	return slices.Contains(columns, "sn") && slices.Contains(columns, "cpu_milli")
}

// Nodes reads a node list; file names it in errors. The sequence ends after the first error.
func Nodes(r io.Reader, file string) iter.Seq2[Node, error] {
	return stream(r, file, nodeList, nodeRow.node)
}

// Pods reads a pod list; file names it in errors. The sequence ends after the first error.
func Pods(r io.Reader, file string) iter.Seq2[Pod, error] {
	return stream(r, file, podList, podRow.pod)
}

// LoadNodes reads the node list at path.
func LoadNodes(path string) ([]Node, error) { return load(path, nodeList, Nodes) }

// LoadPods reads the pod list at path.
func LoadPods(path string) ([]Pod, error) { return load(path, podList, Pods) }

func load[T any](path string, k kind, read func(io.Reader, string) iter.Seq2[T, error]) ([]T, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", k.name, err)
	}
	defer f.Close() // it is only read
	return Collect(read(f, path), path)
}

// Collect returns what a sequence of Nodes or Pods holds, or its error; one that holds nothing
// is an error too, which names file.
func Collect[T any](rows iter.Seq2[T, error], file string) ([]T, error) {
	var out []T
	for v, err := range rows {
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s: it has a header and nothing below it", file)
	}
	return out, nil
}

// named is a value of a row.
type named interface{ name() string }

// stream decodes rows of type R and converts each. convert names the wrong column on an error.
func stream[R any, T named](r io.Reader, file string, k kind, convert func(R) (T, string, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var zero T
		rows := records.New(r)
		fail := func(column string, err error) { yield(zero, rows.Locate(file, column, err)) }
		dec, err := k.decoder(rows)
		if err != nil {
			fail("", err)
			return
		}
		seen := map[string]bool{}
		for {
			var row R
			if err := dec.Decode(&row); errors.Is(err, io.EOF) {
				return
			} else if err != nil {
				fail("", err)
				return
			}
			v, column, err := convert(row)
			if err == nil {
				column, err = k.needed[0], checkName(v.name(), seen)
			}
			if err != nil {
				fail(column, err)
				return
			}
			if !yield(v, nil) {
				return
			}
		}
	}
}

// decoder reads and checks the header.
func (k kind) decoder(rows *records.Reader) (*csvutil.Decoder, error) {
	_, names, err := rows.First()
	if err != nil {
		return nil, err
	}
	rows.Names = names
	if err := rows.Check(k.name, k.needed, k.known); err != nil {
		for _, other := range []kind{nodeList, podList} {
			if other.name != k.name && slices.Contains(names, other.mark) {
				return nil, fmt.Errorf("this is %s where %s is due", other.name, k.name)
			}
		}
		return nil, err
	}
	return csvutil.NewDecoder(rows, names...)
}

// checkName holds names to what Kubernetes takes, and each to one row.
func checkName(name string, seen map[string]bool) error {
	if p := validation.IsDNS1123Label(name); len(p) > 0 {
		return fmt.Errorf("%q is no name: %s", name, strings.SplitN(p[0], " (", 2)[0])
	}
	if seen[name] {
		return fmt.Errorf("%q is in an earlier row already; names are unique", name)
	}
	seen[name] = true
	return nil
}
