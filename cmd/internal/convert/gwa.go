package convert

import (
	"fmt"
	"path/filepath"
	"strings"

	"gnnsched/workload/usage"
)

// gwa is the format of GWA-T-12 (Bitbrains) of the Grid Workloads Archive: a file for each virtual machine, with a line
// every five minutes and cells between semicolons. Times are in seconds, though the column says milliseconds.
var gwa = &measuredFormat{Name: "gwa-t-12", About: "Bitbrains' virtual machines, a file each",
	matches: func(line string) bool { return strings.HasPrefix(line, "Timestamp [ms];") }, read: readGWA}

// gwaUsed are the columns with amounts: name, dimension, and the unit of the column.
var gwaUsed = []struct {
	column    string
	dimension usage.Dimension
	unit      float64
}{
	{"Memory usage [KB]", usage.Memory, 1024},
	{"Network received throughput [KB/s]", usage.NetworkIn, 1024},
	{"Network transmitted throughput [KB/s]", usage.NetworkOut, 1024},
	{"Disk read throughput [KB/s]", usage.DiskRead, 1024},
	{"Disk write throughput [KB/s]", usage.DiskWrite, 1024},
}

const (
	gwaTime     = "Timestamp [ms]"
	gwaCores    = "CPU cores"
	gwaCapacity = "CPU capacity provisioned [MHZ]"
	gwaUsage    = "CPU usage [MHZ]"
	gwaMemory   = "Memory capacity provisioned [KB]"
)

func readGWA(r *reading, files []measuredFile) error {
	for _, f := range files {
		name := strings.TrimSuffix(filepath.Base(f.Name), filepath.Ext(f.Name))
		if r.machines["vm-"+name] != nil {
			return fmt.Errorf("%s: another file has this name too; convert one folder at a time", f.Name)
		}
		s := r.wanted("vm-"+name, name)
		if s == nil {
			continue
		}
		if err := readGWAMachine(r.open(f, ";"), s); err != nil {
			return err
		}
	}
	return nil
}

// readGWAMachine reads the file of one machine.
func readGWAMachine(t *table, s *samples) error {
	if !t.next(1) {
		return t.close()
	}
	column := map[string]int{}
	for i, c := range t.cells {
		column[c] = i
	}
	for _, c := range []string{gwaTime, gwaCores, gwaCapacity, gwaUsage, gwaMemory} {
		if _, has := column[c]; !has {
			t.fail("column %q is missing", c)
			return t.close()
		}
	}
	for width := len(t.cells); t.next(width); {
		at := t.number(column[gwaTime], gwaTime)
		if at > 1e11 { // milliseconds after all
			at /= 1000
		}
		cores, capacity := t.given(column[gwaCores], gwaCores, 1e4), t.number(column[gwaCapacity], gwaCapacity)
		s.cores, s.memory = max(s.cores, cores), max(s.memory, int64(t.given(column[gwaMemory], gwaMemory, 1e12)*1024))
		if used := t.number(column[gwaUsage], gwaUsage); capacity > 0 {
			t.sample(s, usage.CPU, at, used/capacity*cores)
		} else {
			t.r.ignored++
		}
		for _, u := range gwaUsed {
			if i, has := column[u.column]; has {
				t.sample(s, u.dimension, at, t.number(i, u.column)*u.unit)
			}
		}
	}
	return t.close()
}

// sample adds a sample, and counts it if it cannot be.
func (t *table) sample(s *samples, d usage.Dimension, at, value float64) {
	if !s.add(d, at, value) {
		t.r.ignored++
	}
}
