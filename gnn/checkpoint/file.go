package checkpoint

import (
	"fmt"
	"os"
	"syscall"

	"gnnsched/internal/files"
)

// Load reads and validates a file. It checks the kind and the size of the file before it reads, so that
// a named pipe does not block and a huge file takes no memory. The error wraps ErrFile if the file is
// not a regular one; see Read for others.
func Load(path string) (*Checkpoint, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // otherwise a pipe without a writer blocks
	if err != nil {
		return nil, fmt.Errorf("load checkpoint: %w", err)
	}
	defer f.Close()
	c, err := readFile(f)
	if err != nil {
		return nil, fmt.Errorf("load checkpoint %s: %w", path, err)
	}
	return c, nil
}

func readFile(f *os.File) (*Checkpoint, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%w (%v)", ErrFile, info.Mode())
	}
	if info.Size() > maxFile {
		return nil, fmt.Errorf("%w: %d bytes, at most %d are read", errFormat, info.Size(), maxFile)
	}
	return Read(f)
}

// Save writes the checkpoint to a file. It replaces the file in one step: a reader sees the old file
// or the new one, never a part.
func (c *Checkpoint) Save(path string) error {
	if err := files.WriteBy(path, 0o644, c.Write); err != nil {
		return fmt.Errorf("save checkpoint %s: %w", path, err)
	}
	return nil
}
