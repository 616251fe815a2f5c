package files

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// InMemory makes a file with the content, for code of this process that takes only a path, and returns its path, which only this
// process can use. It needs no writable directory, and nothing of it is left when the process ends, even if it is killed. Use it for
// credentials. It stays until remove is called, which may be called more than once.
func InMemory(name string, content []byte) (path string, remove func(), err error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC) // child processes do not inherit it
	if err != nil {
		return "", nil, fmt.Errorf("make a file in memory: %w", err)
	}
	f := os.NewFile(uintptr(fd), name)
	if _, err := f.Write(content); err != nil {
		return "", nil, errors.Join(fmt.Errorf("write a file in memory: %w", err), f.Close())
	}
	return fmt.Sprintf("/proc/self/fd/%d", fd), func() { f.Close() }, nil
}
