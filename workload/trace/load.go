package trace

import (
	"os"

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
		var out File
		out.Arrivals, out.Notes, err = play.Load(path)
		return out, err
	}
	return Auto.Read(f, path)
}
