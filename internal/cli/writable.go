package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"gnnsched/internal/exit"
)

// Writable returns a usage error if path cannot be written. Commands call it before minutes of work
// whose result goes there. It needs a writable directory and leaves path as it is.
func Writable(path string) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".gnnsched-*")
	if err != nil {
		return exit.New(exit.Usage, fmt.Errorf("write %s: %w", path, err), "choose a place that you can write to with --out")
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}
