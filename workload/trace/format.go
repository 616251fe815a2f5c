package trace

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"strings"

	"gnnsched/internal/cluster"
	"gnnsched/workload"
	"gnnsched/workload/record/play"
	"gnnsched/workload/trace/openb"
	"gnnsched/workload/usage"
)

// Format is a file format for traces.
type Format struct {
	Name   string   // in flags, a word in lower case
	header []string // columns that a file must have

	// matches reports whether a CSV with these columns has the format. Column names are in lower case, with underscores for spaces.
	matches func(columns []string) bool
	read    func(r io.Reader, file string) (File, error)
}

// Read reads a whole file. Errors begin with the given file name and, if they concern a place in the file, its line and column:
// "pods.csv:3:5: ...".
func (f *Format) Read(r io.Reader, file string) (File, error) {
	out, err := f.read(r, file)
	out.Format = cmp.Or(out.Format, f)
	return out, err
}

// File is the content of a trace file.
type File struct {
	Format   *Format // of the file, never Auto; nil for a record
	Arrivals workload.Trace
	Pods     []openb.Pod // the rows of an openb pod list, in the file's order; nil in other formats
	Notes    []string    // the record's data that the trace lacks, for people
}

// formats are all formats. If the columns of a file match several, the first one reads it.
var formats = []*Format{openbFormat, instances, arrivals, Plan}

// Auto reads a file in the format that its header matches. Files without a header are plans.
var Auto = &Format{Name: "auto", read: readAuto}

// readAuto reads a file in the format that its header matches.
func readAuto(r io.Reader, file string) (File, error) {
	b := bufio.NewReaderSize(r, headerWithin)
	f, known := recognise(b)
	if known {
		return f.Read(b, file)
	}
	out, err := planArrivals(openb.NewRecords(b), file)
	out.Format = Plan
	switch {
	case errors.Is(err, errNoPlan):
		err = fmt.Errorf("%w; the formats: %s", err, headers())
	case err != nil:
		err = fmt.Errorf("%w; the first line is not the header of any format: %s", err, headers())
	}
	return out, err
}

// headers lists the formats with the columns that each needs.
func headers() string {
	var out []string
	for _, f := range formats {
		out = append(out, fmt.Sprintf("%s needs %s", f.Name, strings.Join(f.header, ",")))
	}
	return strings.Join(out, "; ")
}

// headerWithin is the number of bytes at a file's start that its header must end within,
// including the comments above it.
const headerWithin = 64 << 10

// recognise returns the first format that the header matches, without consuming the header. known is
// false if there is a first line that matches none. The file may then be a plan, whose header may be
// missing.
func recognise(b *bufio.Reader) (f *Format, known bool) {
	head, _ := b.Peek(headerWithin) // a read error comes again when the format reads the file
	_, columns, err := openb.NewRecords(bytes.NewReader(head)).First()
	if err != nil {
		return Plan, true
	}
	for _, f := range formats {
		if f.matches(columns) {
			return f, true
		}
	}
	return Plan, false
}

// Load reads the trace that a path names: a file in any format, or the folder of a record.
func Load(path string) (File, error) {
	f, err := os.Open(path)
	if err != nil {
		return File{}, err
	}
	defer f.Close() // it is only read
	if info, err := f.Stat(); err == nil && info.IsDir() {
		var out File
		out.Arrivals, out.Notes, err = play.Load(path)
		return out, err
	}
	return Auto.Read(f, path)
}

// openbFormat is a pod list of the openb trace. It also takes node lists, because openb.ReadPods has the better error message for them.
var openbFormat = &Format{
	Name: "openb", header: openb.PodColumns(),
	matches: func(columns []string) bool { return openb.IsPodList(columns) || openb.IsNodeList(columns) },
	read: func(r io.Reader, file string) (File, error) {
		pods, err := openb.ReadPods(r, file)
		return File{Arrivals: openb.Trace(pods), Pods: pods}, err
	},
}

// The cells of arrivals and plans. An empty cell has the value 0.
type (
	podCount  int     // pods
	cpuCell   int64   // thousandths of a core
	memCell   int64   // bytes
	gpuCell   int64   // devices
	timeCell  float64 // seconds
	actionTag workload.Action
	usageCell struct{ *usage.Model }
)

// noAction marks a row for a round in which the recorded program did nothing.
const noAction = actionTag(-1)

// actionWords maps the words in an action column, in lower case.
var actionWords = map[string]actionTag{
	"": actionTag(workload.Add), "add": actionTag(workload.Add), "create": actionTag(workload.Add),
	"deploy": actionTag(workload.Add), "apply": actionTag(workload.Add),
	"delete": actionTag(workload.Delete), "remove": actionTag(workload.Delete), "undeploy": actionTag(workload.Delete),
	"reset": actionTag(workload.Reset), "clear": actionTag(workload.Reset),
	"cluster_reset": actionTag(workload.Reset), "cluster-reset": actionTag(workload.Reset),
	"nothing": noAction, "none": noAction, "noop": noAction, "skip": noAction,
}

func (a actionTag) MarshalText() ([]byte, error) { return []byte(workload.Action(a).String()), nil }

func (a *actionTag) UnmarshalText(b []byte) error {
	v, ok := actionWords[strings.ToLower(string(b))]
	if !ok {
		return fmt.Errorf("%q is not an action: use add, delete, reset or nothing", b)
	}
	*a = v
	return nil
}

func (p podCount) MarshalText() ([]byte, error) {
	if p == 0 {
		return nil, nil
	}
	return []byte(strconv.Itoa(int(p))), nil
}

func (p *podCount) UnmarshalText(b []byte) error {
	n, err := strconv.Atoi(openb.Whole(string(b)))
	if err != nil || n < 0 || n > workload.MaxReplicas {
		return fmt.Errorf("%q is not a number of pods from 1 to %d", b, workload.MaxReplicas)
	}
	*p = podCount(n)
	return nil
}

func (c cpuCell) MarshalText() ([]byte, error) {
	if c == 0 {
		return nil, nil
	}
	return []byte(cluster.FormatCPU(int64(c))), nil
}

func (c *cpuCell) UnmarshalText(b []byte) error {
	n, err := cluster.ParseCPU(string(b))
	*c = cpuCell(n)
	return err
}

func (m memCell) MarshalText() ([]byte, error) {
	if m == 0 {
		return nil, nil
	}
	return []byte(cluster.FormatMemory(int64(m))), nil
}

func (m *memCell) UnmarshalText(b []byte) error {
	n, err := cluster.ParseMemory(string(b))
	*m = memCell(n)
	return err
}

// MarshalText returns no text for 0.
func (c gpuCell) MarshalText() ([]byte, error) {
	if c == 0 {
		return nil, nil
	}
	return strconv.AppendInt(nil, int64(c), 10), nil
}

func (c *gpuCell) UnmarshalText(b []byte) error {
	n, err := strconv.ParseInt(string(b), 10, 64)
	if err != nil || n < 0 || n > workload.MaxGPUs {
		return fmt.Errorf("%q is not a number of GPUs from 0 to %d", b, workload.MaxGPUs)
	}
	*c = gpuCell(n)
	return nil
}

func (u *usageCell) UnmarshalText(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	u.Model = &usage.Model{}
	return u.Model.UnmarshalJSON(b)
}

func (c *timeCell) UnmarshalText(b []byte) error {
	x, err := strconv.ParseFloat(string(b), 64)
	if err != nil || !(math.Abs(x) < 1e12) {
		return fmt.Errorf("%q is not a time in seconds", b)
	}
	*c = timeCell(x)
	return nil
}
