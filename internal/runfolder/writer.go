package runfolder

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"k8s.io/utils/clock"

	"gnnsched/internal/exit"
)

// Bounds of a folder. A row that is longer than maxLine is an error; rows beyond maxFile are dropped.
const (
	maxFile = 48 << 20
	maxLine = 4 << 20
)

// Writer writes a run folder. It is safe for concurrent use.
type Writer struct {
	dir   string
	clock clock.PassiveClock
	limit int64

	mu       sync.Mutex
	manifest Manifest
	files    map[string]*file
}

type file struct {
	*os.File
	size int64
}

// Create makes the folder, with its parents, and writes the manifest. It refuses a folder that holds a run: an
// error with exit code 2. If m.Started is zero, the run starts now.
func Create(dir string, m Manifest, c clock.PassiveClock) (*Writer, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, refused(dir, err)
	}
	if err := vacant(dir); err != nil {
		return nil, err
	}
	if m.Started.IsZero() {
		m.Started = c.Now().UTC()
	}
	w := &Writer{dir: dir, clock: c, limit: maxFile, manifest: m, files: map[string]*file{}}
	return w, Describe(dir, m)
}

// vacant returns an error if the folder holds a run.
func vacant(dir string) error {
	for _, name := range append(rowFiles(), manifestFile) {
		if _, err := os.Lstat(filepath.Join(dir, name)); !errors.Is(err, fs.ErrNotExist) {
			if err == nil {
				err = fmt.Errorf("%s holds the run of an earlier command: %s is there", dir, name)
			}
			return exit.New(exit.Usage, err, "choose another folder, or remove that one")
		}
	}
	return nil
}

// Add writes rows to the files of their types. Rows that find their file full are counted and dropped.
func (w *Writer) Add(rows ...Row) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range rows {
		if err := w.add(r); err != nil {
			return fmt.Errorf("write the run folder %s: %s: %w", w.dir, r.file(), err)
		}
	}
	return nil
}

func (w *Writer) add(r Row) error {
	if err := r.check(); err != nil {
		return err
	}
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	line = append(line, '\n')
	if len(line) > maxLine {
		return fmt.Errorf("a row of %d bytes, more than %d", len(line), maxLine)
	}
	f := w.files[r.file()]
	if f == nil {
		opened, err := os.OpenFile(filepath.Join(w.dir, r.file()), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if err != nil {
			return err
		}
		f = &file{File: opened}
		w.files[r.file()] = f
	}
	if f.size+int64(len(line)) > w.limit {
		if w.manifest.Dropped == nil {
			w.manifest.Dropped = map[string]int{}
		}
		w.manifest.Dropped[r.file()]++
		return nil
	}
	if _, err := f.WriteAt(line, f.size); err != nil { // readers refuse a line that is not whole before others
		return errors.Join(err, f.Truncate(f.size))
	}
	f.size += int64(len(line))
	return nil
}

// Close closes the files, and writes into the manifest when the run ended and, unless failed is nil, why it ended
// before its time.
func (w *Writer) Close(failed error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	var errs []error
	for _, f := range w.files {
		errs = append(errs, f.Close())
	}
	now := w.clock.Now().UTC()
	w.manifest.Ended = &now
	if failed != nil {
		w.manifest.Error = failed.Error()
	}
	return errors.Join(append(errs, Describe(w.dir, w.manifest))...)
}
