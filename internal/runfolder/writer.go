package runfolder

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"k8s.io/utils/clock"

	"gnnsched/internal/exit"
)

// Bounds of a folder. A row that is longer than maxLine is an error; rows beyond maxFile are dropped.
const (
	maxFile = 48 << 20
	maxLine = 4 << 20
)

// Writer writes a run folder. It is safe for concurrent use. A failure, such as a full disk, does not stop the run: rows that cannot be
// written are dropped and counted, Failed and Close return the first failure, and the manifest notes it.
type Writer struct {
	dir   string
	clock clock.PassiveClock
	limit int64

	mu       sync.Mutex
	manifest Manifest
	files    map[string]*file
	failed   error // the first failure
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
	if err := describe(dir, m); err != nil {
		return nil, err
	}
	if err := hold(filepath.Join(dir, reserve)); err != nil { // nothing may look like a run that holds no result
		return nil, errors.Join(refused(dir, err), os.Remove(filepath.Join(dir, manifestFile)))
	}
	return w, nil
}

// hold makes the reserve, or leaves no file.
func hold(path string) error {
	if err := os.WriteFile(path, make([]byte, reserved), 0o644); err != nil {
		_ = os.Remove(path) // which may not be there
		return err
	}
	return nil
}

// reserve is a file of reserveBytes that Close removes, so that there is room for the manifest on a full disk.
const (
	reserve  = ".reserve"
	reserved = 64 << 10
)

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

// Add writes rows to the files of their types. Rows that find their file full or cannot be written are counted and dropped.
func (w *Writer) Add(rows ...Row) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range rows {
		if err := w.add(r); err != nil {
			w.drop(r)
			if w.failed == nil {
				w.failed = fmt.Errorf("write the run folder %s: %s: %w", w.dir, r.file(), err)
			}
		}
	}
}

// Failed returns the first failure, or nil.
func (w *Writer) Failed() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.failed
}

// drop counts a row that is not written.
func (w *Writer) drop(r Row) {
	if w.manifest.Dropped == nil {
		w.manifest.Dropped = map[string]int{}
	}
	w.manifest.Dropped[r.file()]++
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
		w.drop(r)
		return nil
	}
	if _, err := f.WriteAt(line, f.size); err != nil { // readers refuse a line that is not whole before others
		return errors.Join(err, f.Truncate(f.size))
	}
	f.size += int64(len(line))
	return nil
}

// Close closes the files, and writes the end of the run into the manifest and, unless failed is nil, the reason of an early end. It returns
// the first failure of the writer: the folder is then incomplete, and its manifest records it.
func (w *Writer) Close(failed error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	errs := []error{w.failed}
	for _, f := range w.files {
		errs = append(errs, f.Close())
	}
	w.manifest.Ended = new(w.clock.Now().UTC())
	if failed != nil {
		w.manifest.Error = failed.Error()
	}
	if w.failed != nil {
		w.manifest.Notes = append(slices.Clone(w.manifest.Notes), fmt.Sprintf("This folder is incomplete: %v.", w.failed))
	}
	errs = append(errs, os.Remove(filepath.Join(w.dir, reserve)), describe(w.dir, w.manifest))
	return incomplete(w.dir, errors.Join(errs...))
}

// incomplete wraps a failure of a folder with its consequence; nil for nil.
func incomplete(dir string, err error) error {
	if err == nil {
		return nil
	}
	return exit.New(exit.Internal, fmt.Errorf("%w\nthe run folder %s is incomplete", err, dir),
		"make room, or choose another place with --out, and run it again")
}
