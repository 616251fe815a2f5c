package workers

import (
	"os"
	"path/filepath"
	"syscall"
)

// folderPrefix begins the names of workers' folders.
const folderPrefix = "gnnsched-work-"

// folder makes the folder of a worker and its children, and removes those of workers that were killed.
func folder() (dir string, remove func(), err error) {
	left, _ := filepath.Glob(filepath.Join(os.TempDir(), folderPrefix+"*")) // the pattern is valid
	for _, dir := range left {
		if lock, err := lockFolder(dir); err == nil {
			os.RemoveAll(dir)
			lock.Close()
		}
	}
	for range 3 { // another worker may take a new one for one that was left
		if dir, err = os.MkdirTemp("", folderPrefix); err != nil {
			return "", nil, err
		}
		var lock *os.File
		if lock, err = lockFolder(dir); err == nil {
			return dir, func() { os.RemoveAll(dir); lock.Close() }, nil
		}
	}
	return "", nil, err
}

// lockFolder locks a folder until the process ends or closes the file.
func lockFolder(dir string) (*os.File, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err == nil {
		_, err = os.Stat(dir) // it may have been removed in between
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}
