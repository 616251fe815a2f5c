package convert

import (
	"strings"

	"gnnsched/workload/usage"
)

// azure is the format of Azure's public dataset of virtual machines, versions 1 and 2: vmtable.csv with a line for each machine, and
// vm_cpu_readings-file-*.csv with a line for each reading. Neither has a header. Memory is known only as the machine's size.
var azure = &measuredFormat{Name: "azure", About: "Azure's vmtable.csv, then vm_cpu_readings-file-*.csv", read: readAzure}

// Columns of vmtable.csv and of the readings.
const (
	azureVM, azureVMCores, azureVMMemory, azureVMColumns   = 0, 9, 10, 11
	azureTime, azureReading, azureMean, azureReadingColumn = 0, 1, 4, 5
)

func readAzure(r *reading, files []measuredFile) error {
	known := newRoster("machine", "vmtable.csv")
	for _, f := range files {
		t := r.open(f, ",")
		for t.next(azureReadingColumn) {
			if len(t.cells) >= azureVMColumns {
				known.is(t.cells[azureVM], size{t.bucket(azureVMCores), int64(t.bucket(azureVMMemory) * (1 << 30))})
				continue
			}
			id := t.cells[azureReading]
			given, has := known.of(t, id)
			if !has {
				continue
			}
			if s := r.wanted("vm-"+shortened(id), id); s != nil {
				s.cores, s.memory = given.cores, given.memory
				t.sample(s, usage.CPU, t.number(azureTime, "timestamp"), t.number(azureMean, "average CPU")/100*given.cores)
			}
		}
		if err := t.close(); err != nil {
			return err
		}
	}
	return known.close(r)
}

// bucket returns the size of a bucket: ">24" is read as 24.
func (t *table) bucket(i int) float64 {
	t.cells[i] = strings.TrimPrefix(t.cells[i], ">")
	return t.given(i, "bucket", 1e5)
}

// shortened returns an encrypted name as a label value may hold it: letters and digits, at most 40.
func shortened(id string) string {
	keep := func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' {
			return c
		}
		return -1
	}
	id = strings.Map(keep, id)
	return id[:min(len(id), 40)]
}
