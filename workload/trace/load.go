package trace

import (
	"fmt"
	"os"

	"gnnsched/workload/record"
	"gnnsched/workload/record/play"
)

// Load reads the trace that a path names: a file in any format, or the folder of a record.
func Load(path string) (File, error) {
	f, err := os.Open(path)
	if err != nil {
		return File{}, err
	}
	defer f.Close() // it is only read
	if info, err := f.Stat(); err == nil && info.IsDir() {
		return loadRecord(path)
	}
	return Auto.Read(f, path)
}

// loadRecord reads the pods of a record.
func loadRecord(dir string) (File, error) {
	r, err := record.Open(dir)
	if err != nil {
		return File{}, err
	}
	pods, err := r.Pods()
	if err != nil {
		return File{}, err
	}
	f := File{}
	var lacks map[string]int
	if f.Arrivals, lacks, err = play.Arrivals(pods); err != nil {
		return File{}, fmt.Errorf("%s: %w", dir, err)
	}
	for _, d := range r.Damaged() {
		f.Notes = append(f.Notes, "a part of the record is damaged and left out: "+d)
	}
	if len(lacks) > 0 {
		f.Notes = append(f.Notes, "pods are played without what a trace has no place for: "+play.Lacks(lacks))
	}
	return f, nil
}
