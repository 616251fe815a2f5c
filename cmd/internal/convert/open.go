package convert

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// list returns files, and the CSV files of folders in the order of their names. total is the approximate number of bytes.
func list(paths []string) (files []measuredFile, total int64, err error) {
	paths, err = inFolders(paths)
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return nil, 0, err
		}
		total += info.Size()
		files = append(files, measuredFile{Name: strings.TrimSuffix(path, ".gz"), Reader: &onDemand{path: path}})
	}
	return files, total, err
}

// inFolders replaces each folder by its CSV files.
func inFolders(paths []string) ([]string, error) {
	var out []string
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return nil, err
		}
		if !info.IsDir() {
			out = append(out, path)
			continue
		}
		inside, err := os.ReadDir(path)
		if err != nil {
			return nil, err
		}
		before := len(out)
		for _, f := range inside {
			if strings.HasSuffix(strings.TrimSuffix(f.Name(), ".gz"), ".csv") {
				out = append(out, filepath.Join(path, f.Name()))
			}
		}
		if len(out) == before {
			return nil, fmt.Errorf("%s: the folder has no CSV file", path)
		}
	}
	return out, nil
}

// onDemand is a file that is open from the first Read to its end. A record may have more files than a process
// may open.
type onDemand struct {
	path string
	file *os.File
	from io.Reader
	end  error // of an earlier Read
}

func (f *onDemand) Read(p []byte) (int, error) {
	if f.end != nil {
		return 0, f.end
	}
	if f.from == nil {
		if f.end = f.open(); f.end != nil {
			return 0, f.end
		}
	}
	var n int
	if n, f.end = f.from.Read(p); f.end != nil {
		f.file.Close()
	}
	return n, f.end
}

func (f *onDemand) open() (err error) {
	if f.file, err = os.Open(f.path); err != nil {
		return err
	}
	f.from = f.file
	if !strings.HasSuffix(f.path, ".gz") {
		return nil
	}
	z, err := gzip.NewReader(f.file)
	if err != nil {
		return errors.Join(err, f.file.Close())
	}
	f.from = z
	return nil
}
