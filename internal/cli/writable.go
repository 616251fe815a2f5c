package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"

	"gnnsched/internal/exit"
)

// Writable returns a usage error if path cannot be written. Commands call it before minutes of work whose result goes there. It needs a
// writable directory and leaves path as it is.
func Writable(path string) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".gnnsched-*")
	if err != nil {
		return exit.New(exit.Usage, fmt.Errorf("write %s: %w", path, err), "choose a place that you can write to with --out")
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// FindProgram returns the path of a program: in the directory of this one, following links, or in PATH.
func FindProgram(name string) (string, error) {
	if own, err := os.Executable(); err == nil {
		if real, err := filepath.EvalSymlinks(own); err == nil {
			own = real
		}
		beside := filepath.Join(filepath.Dir(own), name)
		if _, err := exec.LookPath(beside); err == nil {
			return beside, nil
		}
	}
	return exec.LookPath(name)
}

// MakeDir makes the directory of a flag or its default, with its parents, and reports it on w. It does nothing if the directory is there.
func MakeDir(w io.Writer, dir, flag string, mode os.FileMode) error {
	_, err := os.Stat(dir)
	if err == nil {
		return nil // a path that is no directory fails at the first file
	}
	if err := os.MkdirAll(dir, mode); err != nil {
		return exit.New(exit.Usage, fmt.Errorf("%s: %w", flag, err), "choose a place that you can write to with "+flag)
	}
	if errors.Is(err, fs.ErrNotExist) {
		fmt.Fprintf(w, "made the directory %s; choose another with %s\n", dir, flag)
	}
	return nil
}
