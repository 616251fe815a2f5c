package kwok

import (
	"bytes"
	"fmt"
	"os"
	"strings"
)

// processStart returns the start time of a process: the id of the machine's boot and the clock
// ticks since then. Together with the pid it identifies a process for good. It returns "" if
// there is no such process or no /proc.
func processStart(pid int) string {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	// The second field is the program's name in parentheses, which may contain any characters.
	end := bytes.LastIndexByte(stat, ')')
	fields := strings.Fields(string(stat[end+1:]))
	const startTime = 22 - 3 // the 22nd field; fields begins with the third
	if end < 0 || len(fields) <= startTime {
		return ""
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(boot)) + "/" + fields[startTime]
}
