package convert

import (
	"strconv"
	"strings"

	"gnnsched/workload/usage"
)

// vmsFormat is a table with a line for each virtual machine, derived from GWA-T-12:
//
//	vm,cores,cpu_mhz,memory_mb,cpu_permille
//
// The last cell has a value for each five minutes, in thousandths of the machine's CPU, separated by spaces. The column memory_mb holds
// kilobytes, as the original does; a machine of 4 cores has 6,213,632.
var vmsFormat = &measuredFormat{Name: "vms", About: "virtual machines, a line with a series each",
	matches: func(line string) bool { return strings.TrimSpace(line) == vmsHeader }, read: readVMs}

const (
	vmsHeader = "vm,cores,cpu_mhz,memory_mb,cpu_permille"
	vmsStep   = 300 // seconds
)

func readVMs(r *reading, files []measuredFile) error {
	for _, f := range files {
		t := r.open(f, ",")
		if t.next(5) && strings.Join(t.cells, ",") != vmsHeader {
			t.fail("the first line is not %s", vmsHeader)
		}
		for !r.full() && t.next(5) {
			if r.machines["vm-"+t.cells[0]] != nil {
				t.fail("machine %.40q is there twice", t.cells[0])
				break
			}
			s := r.wanted("vm-"+t.cells[0], t.cells[0])
			if s == nil {
				continue
			}
			s.cores, s.memory = t.given(1, "cores", 1e4), int64(t.given(3, "memory_mb", 1e12)*1024)
			for i, v := range strings.Fields(t.cells[4]) {
				x, err := strconv.ParseFloat(v, 64)
				if err != nil {
					t.fail("cpu_permille: %.40q is not a number", v)
					break
				}
				t.sample(s, usage.CPU, float64(i)*vmsStep, x/1000*s.cores)
			}
		}
		if err := t.close(); err != nil {
			return err
		}
	}
	return nil
}
