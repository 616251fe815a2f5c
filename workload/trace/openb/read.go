package openb

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// amount is a cell with a whole number of at least 0.
type amount int64

func (a *amount) UnmarshalText(b []byte) error {
	s := Whole(string(b))
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

// seconds is a cell with a time. given is false if the cell is empty or the column missing.
type seconds struct {
	value float64
	given bool
}

func (s *seconds) UnmarshalText(b []byte) error {
	x, err := strconv.ParseFloat(string(b), 64)
	switch {
	case err != nil || !(x < 1e12):
		return fmt.Errorf("%q is not a time in seconds", b)
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

// kind is one of the trace's two kinds of file.
type kind struct {
	name          string   // in errors
	needed, known []string // columns; the first needed one holds the row's name
	mark          string   // a column that the other kind does not have
}

var (
	nodeList = kind{"an openb node list", nodeColumns, nodeColumns, "sn"}
	podList  = kind{"an openb pod list", podColumns[:5], podColumns, "num_gpu"}

	nodeColumns = []string{"sn", "cpu_milli", "memory_mib", "gpu", "model"}
	podColumns  = []string{
		"name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "gpu_spec", "qos", "pod_phase", "creation_time", "deletion_time",
		"scheduled_time",
	}
)

// PodColumns lists the columns that a pod list must have.
func PodColumns() []string { return slices.Clone(podList.needed) }

// IsPodList reports whether a CSV with these columns, in lower case, is a pod list.
func IsPodList(columns []string) bool {
	return slices.Contains(columns, "num_gpu") && slices.Contains(columns, "gpu_milli")
}

// IsNodeList reports whether a CSV with these columns, in lower case, is a node list.
func IsNodeList(columns []string) bool {
	return slices.Contains(columns, "sn") && slices.Contains(columns, "cpu_milli")
}

// LoadNodes reads the node list at path. A list without nodes is an error.
func LoadNodes(path string) ([]Node, error) { return load(path, nodeList, readNodes) }

// LoadPods reads the pod list at path. A list without pods is an error.
func LoadPods(path string) ([]Pod, error) { return load(path, podList, ReadPods) }

// ReadPods reads a pod list. Errors begin with the given file name. A list without pods is an
// error.
func ReadPods(r io.Reader, file string) ([]Pod, error) {
	return read(r, file, podList, podRow.pod)
}

func readNodes(r io.Reader, file string) ([]Node, error) {
	return read(r, file, nodeList, nodeRow.node)
}

func load[T any](path string, k kind, read func(io.Reader, string) ([]T, error)) ([]T, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", k.name, err)
	}
	defer f.Close() // it is only read
	return read(f, path)
}

// named is a value made from a row.
type named interface{ name() string }

// read decodes rows of type R and converts them to values of type T. On an error, convert also
// returns the wrong column.
func read[R any, T named](r io.Reader, file string, k kind, convert func(R) (T, string, error)) ([]T, error) {
	rows := NewRecords(r)
	if err := k.header(rows); err != nil {
		return nil, rows.Locate(file, "", err)
	}
	var out []T
	seen := map[string]bool{}
	err := Each(rows, file, func(row R) (column string, err error) {
		v, column, err := convert(row)
		if err == nil {
			column, err = k.needed[0], checkName(v.name(), seen)
		}
		out = append(out, v)
		return column, err
	})
	if err != nil {
		return nil, err
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s: the file has a header but no rows", file)
	}
	return out, nil
}

// header reads the header and checks it.
func (k kind) header(rows *Records) error {
	_, names, err := rows.First()
	if err != nil {
		return err
	}
	rows.Names = names
	if err := rows.Check(k.name, k.needed, k.known); err != nil {
		for _, other := range []kind{nodeList, podList} {
			if other.name != k.name && slices.Contains(names, other.mark) {
				return fmt.Errorf("this is %s, but %s is needed", other.name, k.name)
			}
		}
		return err
	}
	return nil
}

// checkName returns an error if Kubernetes would refuse the name or if it was seen before.
func checkName(name string, seen map[string]bool) error {
	if p := validation.IsDNS1123Label(name); len(p) > 0 {
		return fmt.Errorf("%q is not a valid name: %s", name, strings.SplitN(p[0], " (", 2)[0])
	}
	if seen[name] {
		return fmt.Errorf("%q is also the name of an earlier row", name)
	}
	seen[name] = true
	return nil
}

// Names of the trace's files.
const (
	NodesFile  = "openb_node_list_gpu_node.csv" // the nodes with GPUs
	podsPrefix = "openb_pod_list_"
	podsSuffix = ".csv"
)

// PodLists returns the sorted names of the pod lists in a folder, such as default for openb_pod_list_default.csv. It returns an error if
// there are none.
func PodLists(dir string) ([]string, error) {
	files, err := filepath.Glob(PodsFile(dir, "*"))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s holds no %s*%s", dir, podsPrefix, podsSuffix)
	}
	names := make([]string, len(files))
	for i, f := range files {
		names[i] = ListName(f)
	}
	return names, nil
}

// PodsFile returns the path of a pod list in a folder.
func PodsFile(dir, name string) string { return filepath.Join(dir, podsPrefix+name+podsSuffix) }

// ListName returns the name of the pod list in a file.
func ListName(path string) string {
	return strings.TrimSuffix(strings.TrimPrefix(filepath.Base(path), podsPrefix), podsSuffix)
}
