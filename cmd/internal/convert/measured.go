package convert

import (
	"bufio"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"gnnsched/internal/choice"
	"gnnsched/workload/usage"
)

// measuredWorkload is the content of a record.
type measuredWorkload struct {
	Machines []measuredMachine // in the order of their first measurements
	Jobs     []measuredJob     // in the order of the file
	Notes    []string          // caveats of the reading, for people
}

// measuredMachine is a virtual machine or a container with its usage.
type measuredMachine struct {
	Name   string
	Cores  float64 // that it was given
	Memory int64   // bytes that it was given; 0: not known

	Step  float64                     // seconds between two values
	First float64                     // time of the first value in seconds; if the record has dates, the Unix time
	Used  [usage.Dimensions][]float32 // values by dimension, in its unit; nil: not measured
}

// measuredJob is a batch job.
type measuredJob struct {
	Name              string
	Arrival, Lifetime float64 // seconds
	Cores             float64 // that it was given; 0: not known
	Mean, Max         float64 // cores that it used on average and at most
}

// formatOptions control the reading of a record.
type formatOptions struct {
	Format *measuredFormat // nil: chosen by the first line of the first file
	Step   float64         // seconds of a step; at least 1
	days   float64         // machines: number of days to keep, from the first value on; 0: all
	Limit  int             // largest number of machines or jobs to read; 0: all
	Part   Part            // which of them are kept
	// Progress is called now and then with the number of bytes read so far. An error ends the reading.
	Progress func(bytes int64) error
}

// measuredFile is an open file of a record.
type measuredFile struct {
	Name string
	io.Reader
}

// measuredFormat is a format of records.
type measuredFormat struct {
	Name    string                               // in flags
	About   string                               // the format's files in a few words
	matches func(line string) bool               // whether a file may begin with a line; nil: no line tells
	read    func(*reading, []measuredFile) error // adds the content of the files
}

// measuredFormats returns all formats.
func measuredFormats() []*measuredFormat {
	return []*measuredFormat{gwa, vmsFormat, azure, alibaba, alibabaBatch, jobs}
}

// formatNamed returns the format with a name.
func formatNamed(name string) (*measuredFormat, error) {
	return choice.Find("format", name, measuredFormats(), func(x *measuredFormat) string { return x.Name })
}

// Part is a part of the machines or jobs of a record. Names decide which part each belongs to, so the other options of a reading do not
// change a part. The instances of one job belong together.
type Part string

// The parts.
const (
	All      Part = "all"
	Training Part = "training" // three of four
	Judging  Part = "judging"  // the rest
)

// seriesParts returns all parts.
func seriesParts() []Part { return []Part{All, Training, Judging} }

// has reports whether the machine or job with a name belongs to the part.
func (p Part) has(name string) bool {
	judging := sha256.Sum256([]byte(name))[0]%4 == 0
	switch p {
	case Training:
		return !judging
	case Judging:
		return judging
	}
	return true
}

// reading is the state of a Read.
type reading struct {
	formatOptions
	out measuredWorkload

	machines map[string]*samples // by name
	order    []string
	bytes    int64           // read so far
	ignored  int             // values that cannot be
	twins    map[string]bool // machines whose shortened name another one has
}

// readFormat reads a record. Errors begin with the file and, if they concern a place in it, the line: "vms.csv:3: ...".
func readFormat(o formatOptions, files ...measuredFile) (*measuredWorkload, error) {
	if len(files) == 0 {
		return nil, errors.New("there is no file to read")
	}
	if !(o.Step >= 1 && o.Step <= 86400) {
		return nil, fmt.Errorf("a step of %v seconds is not 1 to 86400", o.Step)
	}
	r := &reading{formatOptions: o, machines: map[string]*samples{}, twins: map[string]bool{}}
	files = slices.Clone(files)
	for i, f := range files {
		files[i].Reader = &counter{f.Reader, r}
	}
	if r.Format == nil {
		b := bufio.NewReaderSize(files[0], 64<<10)
		head, err := b.Peek(64 << 10)
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("%s: %w", files[0].Name, err)
		}
		line, _, _ := strings.Cut(strings.TrimPrefix(string(head), "\ufeff"), "\n")
		i := slices.IndexFunc(measuredFormats(), func(f *measuredFormat) bool { return f.matches != nil && f.matches(line) })
		if i < 0 {
			return nil, fmt.Errorf("%s: its first line belongs to no known format; name the format", files[0].Name)
		}
		r.Format, files[0].Reader = measuredFormats()[i], b
	}
	if err := r.Format.read(r, files); err != nil {
		return nil, err
	}
	r.finish()
	if len(r.out.Machines)+len(r.out.Jobs) == 0 {
		if r.Part != All && r.Part != "" {
			return nil, fmt.Errorf("%s: nothing in the file belongs to the part %s", files[0].Name, r.Part)
		}
		return nil, fmt.Errorf("%s: the file has nothing to read%s", files[0].Name, r.reasons())
	}
	return &r.out, nil
}

// finish makes machines of the samples and writes the notes.
func (r *reading) finish() {
	empty, unsized := map[string]bool{}, map[string]bool{}
	for _, name := range r.order {
		m, ok := r.machines[name].machine(name, r.Step, r.days)
		switch {
		case !ok:
			empty[name] = true
		case m.Cores == 0 && m.Used[usage.CPU] != nil: // the usage is a fraction of its unknown cores
			unsized[name] = true
		default:
			r.out.Machines = append(r.out.Machines, m)
		}
	}
	for _, left := range []struct {
		names map[string]bool
		why   string
	}{
		{empty, "they have no valid value"},
		{unsized, "their cores are not known"},
		{r.twins, "after shortening, another machine has the same name"},
	} {
		if len(left.names) > 0 {
			r.note("machines were left out, as %s: %s", left.why, some(left.names))
		}
	}
	if r.ignored > 0 {
		r.note("%d values were ignored: they are negative, not numbers, or marked as invalid", r.ignored)
	}
	if r.full() {
		r.note("only the first %d were read", r.Limit)
	}
	short := slices.ContainsFunc(r.out.Machines, func(m measuredMachine) bool { return m.stepsOfDay() == 0 })
	if short {
		r.note("some machines do not follow the time of day: their series are shorter than a day, or a day has no whole number of steps")
	}
}

// reasons returns the notes as the end of an error.
func (r *reading) reasons() string {
	if len(r.out.Notes) == 0 {
		return ""
	}
	return ": " + strings.Join(r.out.Notes, "; ")
}

func (r *reading) note(format string, a ...any) {
	r.out.Notes = append(r.out.Notes, fmt.Sprintf(format, a...))
}

// wanted returns the samples of the machine with a name, which is derived from its id in the record; nil if it belongs to another part, the
// limit is reached, or a machine with another id has the name.
func (r *reading) wanted(name, id string) *samples {
	if s := r.machines[name]; s != nil {
		if s.id != id {
			r.twins[strings.Clone(id)] = true
			return nil
		}
		return s
	}
	if !r.Part.has(name) || r.full() {
		return nil
	}
	s := &samples{id: strings.Clone(id), step: r.Step}
	r.machines[name], r.order = s, append(r.order, name)
	return s
}

// job adds a job if it belongs to the part and the limit allows. Jobs with the same name belong to the same part.
func (r *reading) job(called string, j measuredJob) {
	switch {
	case !r.Part.has(called), r.full():
	default:
		r.out.Jobs = append(r.out.Jobs, j)
	}
}

// full reports whether the limit of machines or jobs is reached.
func (r *reading) full() bool {
	return r.Limit > 0 && max(len(r.out.Jobs), len(r.order)) >= r.Limit
}

// counter counts the bytes read from a file.
type counter struct {
	io.Reader
	r *reading
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.r.bytes += int64(n)
	if c.r.Progress != nil {
		if stop := c.r.Progress(c.r.bytes); stop != nil {
			return 0, stop
		}
	}
	return n, err
}
