package kwok

import (
	"bytes"
	"fmt"
	"os"
	"strings"
)

// processStart returns when the process began, in the kernel's words: its boot's identity
// and the clock ticks since then. Together with the pid this names one process for good. It
// is empty where the kernel does not tell, and where there is no such process.
func processStart(pid int) string {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	// The second field is the program's name in parentheses and may hold anything.
	end := bytes.LastIndexByte(stat, ')')
	fields := strings.Fields(string(stat[end+1:]))
	const startTime = 22 - 3 // the 22nd field; what is left begins with the third
	if end < 0 || len(fields) <= startTime {
		return ""
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(boot)) + "/" + fields[startTime]
}
