//go:build !linux

package files

import (
	"errors"
	"fmt"
	"os"
)

// InMemory writes the content to a temporary file that only this user can read. There are no files in
// memory with a path except on Linux, so a process that is killed leaves it behind.
func InMemory(name string, content []byte) (path string, remove func(), err error) {
	f, err := os.CreateTemp("", name+"-*") // mode 0600
	if err != nil {
		return "", nil, fmt.Errorf("make a temporary file: %w", err)
	}
	remove = func() { os.Remove(f.Name()) }
	_, err = f.Write(content)
	if err := errors.Join(err, f.Close()); err != nil {
		remove()
		return "", nil, fmt.Errorf("write a temporary file: %w", err)
	}
	return f.Name(), remove, nil
}
