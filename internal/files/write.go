package files

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// unfinished begins the names of files that are being written.
const unfinished = ".unfinished-"

// Unfinished reports whether a file of this name was being written, as a process leaves one that is killed.
func Unfinished(name string) bool { return strings.HasPrefix(name, unfinished) }

// Write replaces a file by text in one step.
func Write(path string, text []byte, mode os.FileMode) error {
	return WriteBy(path, mode, func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	})
}

// WriteBy replaces a file by what write writes. The content is on the disk before the file has its name.
func WriteBy(path string, mode os.FileMode, write func(io.Writer) error) error {
	f, err := os.CreateTemp(filepath.Dir(path), unfinished+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) //nolint:errcheck // it is gone if all went well
	if err := errors.Join(write(f), f.Chmod(mode), f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
