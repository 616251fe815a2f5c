package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"gnnsched/internal/exit"
)

// Writable finds out before minutes of work whether its result can be written to a file.
func Writable(path string) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".gnnsched-*")
	if err != nil {
		return exit.New(exit.Usage, fmt.Errorf("write %s: %w", path, err), "choose a place that you can write to with --out")
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}
