package convert

import (
	"bufio"
	"compress/gzip"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"gnnsched/workload/usage"
)

// A measuredFormat is a format of public records of what machines used: CSV files with named columns.
type measuredFormat struct {
	Name  string // in flags
	About string // the format's files in a few words
	comma rune
	// headers are the columns of files without a header, which their number tells apart. Without any, the first line of a file is its header.
	headers [][]string
	read    func(*reading, *line) // adds what a line says
}

// measuredFormats returns all formats.
func measuredFormats() []*measuredFormat { return []*measuredFormat{gwa, azure, alibaba} }

// reading is the state of the reading of a record.
type reading struct {
	format    *measuredFormat
	step      float64 // seconds of a step
	days      float64 // number of days to keep of each machine; 0: all
	limit     int     // largest number of machines; 0: all
	machines  map[string]*machine
	order     []*machine          // that have measurements
	strangers map[string]struct{} // machines with measurements and without a size
	ignored   int                 // values that cannot be
	notes     []string            // caveats of the reading, for people
}

// line is a line of a file.
type line struct {
	file, machine string // machine is the file's name without its folder and ending
	number        int
	columns       map[string]int
	cells         []string
	fault         error // the first
}

// has reports whether the line has a column, and text and value return its cell; an empty value is NaN.
func (l *line) has(column string) bool { _, has := l.columns[column]; return has }

func (l *line) text(column string) string {
	i, has := l.columns[column]
	if !has {
		l.fail("column %q is missing", column)
		return ""
	}
	return strings.TrimSpace(l.cells[i])
}

func (l *line) value(column string) float64 {
	text := l.text(column)
	if text == "" {
		return math.NaN()
	}
	x, err := strconv.ParseFloat(text, 64)
	if err != nil {
		l.fail("%s: %.40q is not a number", column, text)
	}
	return x
}

// given returns an amount that a machine was given: 0 to most. A bucket such as ">24" is read as 24.
func (l *line) given(column string, most float64) float64 {
	text := strings.TrimPrefix(l.text(column), ">")
	if text == "" {
		return 0
	}
	x, err := strconv.ParseFloat(text, 64)
	if err != nil || !(x >= 0 && x <= most) {
		l.fail("%s: %.40q is not 0 to %g", column, text, most)
		return 0
	}
	return x
}

// fail notes the first fault, which ends the reading.
func (l *line) fail(format string, a ...any) {
	if l.fault == nil {
		l.fault = fmt.Errorf("%s:%d: %w", l.file, l.number, fmt.Errorf(format, a...))
	}
}

// readMeasured reads the files of a record. Errors begin with the file and, if they concern a place in it, the line: "vm.csv:3: ...".
func (r *reading) readMeasured(ctx context.Context, paths []string) error {
	r.machines, r.strangers = map[string]*machine{}, map[string]struct{}{}
	paths, err := inFolders(paths)
	if err != nil {
		return err
	}
	seen := map[string]bool{}
	for _, path := range paths {
		l := &line{file: strings.TrimSuffix(path, ".gz")}
		l.machine = strings.TrimSuffix(filepath.Base(l.file), filepath.Ext(l.file))
		if r.format.headers == nil && seen[l.machine] {
			return fmt.Errorf("%s: another file has this name too; convert one folder at a time", l.file)
		}
		seen[l.machine] = true
		if err := r.file(ctx, path, l); err != nil {
			return err
		}
	}
	return r.finish()
}

// inFolders replaces each folder by its CSV files.
func inFolders(paths []string) (out []string, err error) {
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return nil, err
		}
		if !info.IsDir() {
			out = append(out, path)
			continue
		}
		inside, err := filepath.Glob(filepath.Join(path, "*.csv*"))
		inside = slices.DeleteFunc(inside, func(f string) bool { return !strings.HasSuffix(strings.TrimSuffix(f, ".gz"), ".csv") })
		if err != nil || len(inside) == 0 {
			return nil, errors.Join(err, fmt.Errorf("%s: the folder has no CSV file", path))
		}
		out = append(out, inside...)
	}
	return out, nil
}

// file reads one file. A path that ends in .gz is decompressed.
func (r *reading) file(ctx context.Context, path string, l *line) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close() // it is only read
	in := io.Reader(bufio.NewReaderSize(f, 1<<20))
	if strings.HasSuffix(path, ".gz") {
		if in, err = gzip.NewReader(in); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	rows := csv.NewReader(in)
	rows.Comma, rows.FieldsPerRecord, rows.LazyQuotes, rows.TrimLeadingSpace, rows.ReuseRecord = r.format.comma, -1, true, true, true
	known := map[int]map[string]int{} // columns by their number
	for _, h := range r.format.headers {
		known[len(h)] = byName(h)
	}
	for ctx.Err() == nil {
		cells, err := rows.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: after line %d: %w", l.file, l.number, err)
		}
		if l.number, _ = rows.FieldPos(0); len(known) == 0 {
			cells[0] = strings.TrimPrefix(cells[0], "\ufeff")
			known[len(cells)] = byName(cells)
			continue
		}
		if l.columns, l.cells = known[len(cells)], cells; l.columns == nil {
			return fmt.Errorf("%s:%d: the line has %d cells, want %v", l.file, l.number, len(cells), slices.Sorted(maps.Keys(known)))
		}
		if r.format.read(r, l); l.fault != nil {
			return l.fault
		}
	}
	return ctx.Err()
}

func byName(header []string) map[string]int {
	out := map[string]int{}
	for i, name := range header {
		out[strings.Clone(strings.TrimSpace(name))] = i
	}
	return out
}

// size notes the size of a machine: cores and bytes.
func (r *reading) size(id string, cores, memory float64) {
	m := r.machines[id]
	if m == nil {
		m = &machine{id: id}
		r.machines[id] = m
	}
	m.cores, m.memory = max(m.cores, cores), max(m.memory, int64(memory))
}

// measured returns the machine of a measurement; nil if its size is not known, or the limit is reached. first names the file with sizes.
func (r *reading) measured(l *line, id, first string) *machine {
	m := r.machines[id]
	switch {
	case len(r.machines) == 0:
		l.fail("no machine is known yet: give %s before the measurements", first)
	case m == nil:
		r.strangers[id] = struct{}{}
	case m.listed:
	case r.limit > 0 && len(r.order) >= r.limit:
		return nil
	default:
		m.listed, r.order = true, append(r.order, m)
	}
	return m
}

// sample adds what a machine used. It counts a value that cannot be.
func (r *reading) sample(m *machine, d usage.Dimension, at, value float64) {
	if !m.add(d, at/r.step, value) {
		r.ignored++
	}
}

// finish names the machines and writes the notes. It returns an error if no machine has a measurement.
func (r *reading) finish() error {
	left := map[string][]string{}
	for id, m := range r.machines {
		if !m.listed && (r.limit == 0 || len(r.order) < r.limit) {
			left["no file has measurements of them"] = append(left["no file has measurements of them"], id)
		}
	}
	left["their size is not known"] = slices.Collect(maps.Keys(r.strangers))
	names := map[string]bool{}
	r.order = slices.DeleteFunc(r.order, func(m *machine) bool {
		kind, id, _ := strings.Cut(m.id, "-")
		m.name = kind + "-" + shortened(id)
		why := ""
		switch {
		case m.steps() == 0:
			why = "they have no valid value"
		case m.cores == 0 && m.used[usage.CPU] != nil: // the usage is a fraction of its unknown cores
			why = "their cores are not known"
		case names[m.name]:
			why = "after shortening, another machine has the same name"
		}
		if why != "" {
			left[why] = append(left[why], m.id)
			return true
		}
		names[m.name] = true
		return false
	})
	for _, why := range slices.Sorted(maps.Keys(left)) {
		if ids := left[why]; len(ids) > 0 {
			r.notes = append(r.notes, fmt.Sprintf("machines were left out, as %s: %d (%.60q is the first)", why, len(ids), slices.Min(ids)))
		}
	}
	if r.ignored > 0 {
		r.notes = append(r.notes, fmt.Sprintf("%d values were ignored: they are negative, not numbers, or marked as invalid", r.ignored))
	}
	if r.limit > 0 && len(r.order) >= r.limit {
		r.notes = append(r.notes, fmt.Sprintf("only the first %d were read", r.limit))
	}
	if len(r.order) == 0 {
		return errors.New(strings.Join(append([]string{"no machine has a measurement"}, r.notes...), "; "))
	}
	return nil
}

// shortened returns a name as a label value may hold it: letters and digits, at most 40.
func shortened(id string) string {
	id = strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' {
			return c
		}
		return -1
	}, id)
	return id[:min(len(id), 40)]
}

// azure is the format of Azure's public dataset of virtual machines, versions 1 and 2: vmtable.csv with a line for each machine, and
// vm_cpu_readings-file-*.csv with a line for each reading. Memory is known only as the machine's size.
var azure = &measuredFormat{
	Name: "azure", About: "Azure's vmtable.csv, then vm_cpu_readings-file-*.csv", comma: ',',
	headers: [][]string{
		{"vm", "subscription", "deployment", "created", "deleted", "max", "mean", "p95", "category", "cores", "memory"},
		{"timestamp", "vm", "min", "max", "average CPU"},
	},
	read: func(r *reading, l *line) {
		if l.has("cores") {
			r.size("vm-"+l.text("vm"), l.given("cores", 1e5), l.given("memory", 1e5)*(1<<30))
		} else if m := r.measured(l, "vm-"+l.text("vm"), "vmtable.csv"); m != nil {
			r.sample(m, usage.CPU, l.value("timestamp"), l.value("average CPU")/100*m.cores)
		}
	},
}

// alibaba is the format of the containers in Alibaba's cluster-trace-v2018: container_meta.csv with a line for each change of a container,
// and container_usage.csv with a line for each measurement. Memory, network and disk are in thousandths of an unpublished unit, so only CPU
// is read. Values of -1 and 101 per cent are marked as invalid by the record.
var alibaba = &measuredFormat{
	Name: "alibaba-2018", About: "Alibaba's container_meta.csv, then container_usage.csv", comma: ',',
	headers: [][]string{
		{"container", "machine", "time_stamp", "app", "status", "cpu_request", "cpu_limit", "mem_size"},
		{"container", "machine", "time_stamp", "cpu_util_percent", "mem_util_percent", "cpi", "mem_gps", "mpki", "net_in", "net_out", "disk_io"},
	},
	read: func(r *reading, l *line) {
		if l.has("cpu_request") {
			r.size("container-"+l.text("container"), l.given("cpu_request", 1e6)/100, 0)
		} else if m := r.measured(l, "container-"+l.text("container"), "container_meta.csv"); m != nil {
			percent := l.value("cpu_util_percent")
			if percent > 100 {
				percent = math.NaN()
			}
			r.sample(m, usage.CPU, l.value("time_stamp"), percent/100*m.cores)
		}
	},
}

// gwaUsed are the columns of gwa with amounts in KB, by dimension.
var gwaUsed = [usage.Dimensions]string{
	usage.Memory: "Memory usage [KB]", usage.NetworkIn: "Network received throughput [KB/s]",
	usage.NetworkOut: "Network transmitted throughput [KB/s]", usage.DiskRead: "Disk read throughput [KB/s]",
	usage.DiskWrite: "Disk write throughput [KB/s]",
}

// gwa is the format of GWA-T-12 (Bitbrains) of the Grid Workloads Archive: a file for each virtual machine, with a line
// every five minutes and cells between semicolons. Times are in seconds, though the column says milliseconds.
var gwa = &measuredFormat{
	Name: "gwa-t-12", About: "Bitbrains' virtual machines, a file each", comma: ';',
	read: func(r *reading, l *line) {
		at, id := l.value("Timestamp [ms]"), "vm-"+l.machine
		if at > 1e11 { // milliseconds after all
			at /= 1000
		}
		cores, capacity := l.given("CPU cores", 1e4), l.value("CPU capacity provisioned [MHZ]")
		r.size(id, cores, l.given("Memory capacity provisioned [KB]", 1e12)*1024)
		m := r.measured(l, id, "")
		if m == nil {
			return
		}
		used := math.NaN()
		if capacity > 0 {
			used = l.value("CPU usage [MHZ]") / capacity * cores
		}
		r.sample(m, usage.CPU, at, used)
		for d, column := range gwaUsed {
			if l.has(column) {
				r.sample(m, usage.Dimension(d), at, l.value(column)*1024)
			}
		}
	},
}
