package openb

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/jszwec/csvutil"
	"k8s.io/apimachinery/pkg/util/validation"

	"gnnsched/internal/cluster"
	"gnnsched/internal/each"
	"gnnsched/internal/files"
	"gnnsched/workload"
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
	return each.Map(files, ListName), nil
}

// PodsFile returns the path of a pod list in a folder.
func PodsFile(dir, name string) string { return filepath.Join(dir, podsPrefix+name+podsSuffix) }

// ListName returns the name of the pod list in a file.
func ListName(path string) string {
	return strings.TrimSuffix(strings.TrimPrefix(filepath.Base(path), podsPrefix), podsSuffix)
}

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

// maxPods is the pod limit of each node in the trace's own simulator. It is never reached.
const maxPods = 1001

// Node is a row of a node list.
type Node struct {
	Name      string
	MilliCPU  int64           // thousandths of a core
	MemoryMiB int64           // MiB
	GPUs      int64           // devices
	Model     string          // of the devices; empty if there are none
	Taints    []cluster.Taint `json:",omitempty"` // no list has any; see Taints
}

func (n Node) name() string { return n.Name }

type nodeRow struct {
	Name      string `csv:"sn"`
	CPUMilli  amount `csv:"cpu_milli"`
	MemoryMiB amount `csv:"memory_mib"`
	GPU       amount `csv:"gpu"`
	Model     string `csv:"model"`
}

func (r nodeRow) node() (n Node, column string, err error) {
	switch {
	case r.CPUMilli == 0:
		return n, "cpu_milli", errors.New("is 0; a node must offer CPU")
	case r.MemoryMiB == 0:
		return n, "memory_mib", errors.New("is 0; a node must offer memory")
	case r.GPU > cluster.MaxDevices:
		return n, "gpu", fmt.Errorf("%d is more than the %d devices that a node may have", r.GPU, cluster.MaxDevices)
	case r.GPU > 0 && r.Model == "":
		return n, "model", errors.New("is empty on a node with GPUs")
	}
	if column, err = inRange(r.CPUMilli, r.MemoryMiB); err != nil {
		return n, column, err
	}
	return Node{Name: r.Name, MilliCPU: int64(r.CPUMilli), MemoryMiB: int64(r.MemoryMiB), GPUs: int64(r.GPU), Model: r.Model}, "", nil
}

// inRange returns an error for amounts that are so large that their unit must be wrong.
func inRange(cpu, memory amount) (column string, err error) {
	if cpu > cluster.MaxMilliCPU {
		return "cpu_milli", fmt.Errorf("%d is more than %d thousandths of a core; is it in another unit?", cpu, cluster.MaxMilliCPU)
	}
	if memory > cluster.MaxMemory>>20 {
		return "memory_mib", fmt.Errorf("%d is more than %d MiB; is it in another unit?", memory, cluster.MaxMemory>>20)
	}
	return "", nil
}

// Allocatable returns the resources that the node offers to pods.
func (n Node) Allocatable() cluster.Resources {
	return cluster.Resources{MilliCPU: n.MilliCPU, Memory: n.MemoryMiB << 20, GPU: n.GPUs, Pods: maxPods}
}

// Cluster returns the node without pods, with each of its devices free.
func (n Node) Cluster() *cluster.Node {
	out := &cluster.Node{Name: n.Name, Allocatable: n.Allocatable(), GPUModel: n.Model, Taints: n.Taints, Version: cluster.NextVersion()}
	if n.GPUs > 0 {
		out.GPUs = make([]int64, n.GPUs)
	}
	return out
}

// ClusterNodes returns all nodes without pods, in their order.
func ClusterNodes(nodes []Node) []*cluster.Node {
	return each.Map(nodes, Node.Cluster)
}

// GPUMilli returns the GPU capacity of all nodes together, in thousandths of a device.
func GPUMilli(nodes []Node) int64 {
	return each.Sum(nodes, func(n Node) int64 { return n.GPUs * cluster.DeviceMilli })
}

// machine is a kind of node.
type machine struct {
	milliCPU, memoryMiB, gpus int64
	model                     string
}

// Sample returns at least count of the nodes, in their order, or all if there are fewer. Each kind of machine (CPU, memory, GPUs and model)
// keeps its share, rounded, and at least one node. The nodes of a kind are taken at even distances in the list.
func Sample(nodes []Node, count int) []Node {
	if count >= len(nodes) {
		return nodes
	}
	all := map[machine]int{}
	for _, n := range nodes {
		all[n.machine()]++
	}
	share := float64(count) / float64(len(nodes))
	for ; ; share *= 1.001 { // rounding down may give too few nodes
		seen, out := map[machine]int{}, []Node(nil)
		for _, n := range nodes {
			m := n.machine()
			want := max(1, int(float64(all[m])*share+0.5))
			if i := seen[m]; (i+1)*want/all[m] > i*want/all[m] {
				out = append(out, n)
			}
			seen[m]++
		}
		if len(out) >= count {
			return out
		}
	}
}

func (n Node) machine() machine { return machine{n.MilliCPU, n.MemoryMiB, n.GPUs, n.Model} }

// NoTime stands for a time that the file does not have.
const NoTime = -1

// Pod is a row of a pod list.
type Pod struct {
	Name      string
	MilliCPU  int64    // thousandths of a core
	MemoryMiB int64    // MiB
	GPUs      int64    // requested devices
	GPUMilli  int64    // requested thousandths of each device; less than 1000 only for one device
	Models    []string // GPU models that the pod accepts, each once; empty means any

	Tolerations []cluster.Toleration `json:",omitempty"` // no list has any; see Taints

	Created, Deleted, Scheduled float64 // seconds from the trace's start, or NoTime
}

func (p Pod) name() string { return p.Name }

type podRow struct {
	Name      string  `csv:"name"`
	CPUMilli  amount  `csv:"cpu_milli"`
	MemoryMiB amount  `csv:"memory_mib"`
	NumGPU    amount  `csv:"num_gpu"`
	GPUMilli  amount  `csv:"gpu_milli"`
	GPUSpec   string  `csv:"gpu_spec,omitempty"`
	Created   seconds `csv:"creation_time,omitempty"`
	Deleted   seconds `csv:"deletion_time,omitempty"`
	Scheduled seconds `csv:"scheduled_time,omitempty"`
}

func (r podRow) pod() (p Pod, column string, err error) {
	if column, err = inRange(r.CPUMilli, r.MemoryMiB); err != nil {
		return p, column, err
	}
	switch {
	case r.NumGPU > cluster.MaxDevices:
		return p, "num_gpu", fmt.Errorf("%d is more than the %d devices that a node may have", r.NumGPU, cluster.MaxDevices)
	case r.NumGPU == 0 && r.GPUMilli != 0:
		return p, "gpu_milli", fmt.Errorf("%d with a num_gpu of 0; write 0 here or 1 there", r.GPUMilli)
	case r.NumGPU == 1 && (r.GPUMilli < 1 || r.GPUMilli > cluster.DeviceMilli):
		return p, "gpu_milli", fmt.Errorf("%d is not 1 to %d thousandths of the GPU", r.GPUMilli, cluster.DeviceMilli)
	case r.NumGPU > 1 && r.GPUMilli != cluster.DeviceMilli:
		return p, "gpu_milli", fmt.Errorf("%d with a num_gpu of %d; only a pod with one GPU can share it, other pods have %d",
			r.GPUMilli, r.NumGPU, cluster.DeviceMilli)
	case r.Created.given && r.Deleted.given && r.Deleted.value < r.Created.value:
		return p, "deletion_time", fmt.Errorf("%v is before the creation_time %v", r.Deleted.value, r.Created.value)
	}
	p = Pod{
		Name: r.Name, MilliCPU: int64(r.CPUMilli), MemoryMiB: int64(r.MemoryMiB), GPUs: int64(r.NumGPU), GPUMilli: int64(r.GPUMilli),
		Created: r.Created.or(NoTime), Deleted: r.Deleted.or(NoTime), Scheduled: r.Scheduled.or(NoTime),
	}
	p.Models, err = models(r.GPUSpec)
	return p, "gpu_spec", err
}

// models splits a list such as V100M16|V100M32 and drops repeated models.
func models(spec string) (out []string, err error) {
	if spec == "" {
		return nil, nil
	}
	for m := range strings.SplitSeq(spec, "|") {
		m = strings.TrimSpace(m)
		if m == "" {
			return nil, errors.New("has an empty model between two |")
		}
		if !slices.Contains(out, m) {
			out = append(out, m)
		}
	}
	return out, nil
}

// Requests returns the pod's resource requests: whole GPUs, or a share of one.
func (p Pod) Requests() cluster.Resources {
	r := cluster.Resources{MilliCPU: p.MilliCPU, Memory: p.MemoryMiB << 20, Pods: 1}
	if p.GPUs == 1 && p.GPUMilli < cluster.DeviceMilli {
		r.GPUMilli = p.GPUMilli
	} else {
		r.GPU = p.GPUs
	}
	return r
}

// Shape returns the pod's shape.
func (p Pod) Shape() workload.Shape {
	return workload.Shape{Weight: 1, Requests: p.Requests(), GPUModels: p.Models, Tolerations: p.Tolerations}
}
