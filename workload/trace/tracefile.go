// Package trace reads a trace of pods in whichever of the known formats it is: an openb pod
// list, or a CSV of arrivals as of workload.ReadTrace.
package trace

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"

	"gnnsched/workload"
	"gnnsched/workload/trace/openb"
	"gnnsched/workload/trace/records"
)

// Format is how a trace is written.
type Format string

// The formats.
const (
	Auto     Format = "auto"     // by the file's header
	OpenB    Format = "openb"    // as of openb.Pods
	Arrivals Format = "arrivals" // as of workload.ReadTrace
)

// Formats are all of them.
var Formats = []Format{Auto, OpenB, Arrivals}

// ParseFormat finds a format by its name.
func ParseFormat(name string) (Format, error) {
	if f := Format(name); slices.Contains(Formats, f) {
		return f, nil
	}
	var names []string
	for _, f := range Formats {
		names = append(names, string(f))
	}
	return "", fmt.Errorf("format %q is not known; there are %s", name, strings.Join(names, ", "))
}

// Trace is what a file holds.
type Trace struct {
	Arrivals workload.Trace // by the file's times
	Pods     []openb.Pod    // of an openb pod list, in the file's order; nil of any other
}

// Read reads a trace; file names it in errors, which have the form file:line:column.
func Read(r io.Reader, file string, f Format) (Trace, error) {
	b := bufio.NewReaderSize(r, headerWithin)
	if f == Auto {
		f = recognise(b)
	}
	if f != OpenB {
		arrivals, err := workload.ReadTrace(b, file)
		return Trace{Arrivals: arrivals}, err
	}
	pods, err := openb.Collect(openb.Pods(b, file), file)
	if err != nil {
		return Trace{}, err
	}
	return Trace{Arrivals: openb.Trace(pods), Pods: pods}, nil
}

// headerWithin is how far into a file its header must end, comments before it included.
const headerWithin = 64 << 10

// recognise looks at the header and leaves it where it is.
func recognise(b *bufio.Reader) Format {
	head, _ := b.Peek(headerWithin) // what is wrong with the file shows when it is read
	_, names, err := records.New(bytes.NewReader(head)).First()
	if err == nil && (openb.IsPodList(names) || openb.IsNodeList(names)) { // the latter is refused in its own words
		return OpenB
	}
	return Arrivals
}
