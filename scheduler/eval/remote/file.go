package remote

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"gnnsched/internal/workers"
)

// Blob returns the path of the data of a name.
type Blob = func(name string) (string, error)

// File is a file, or the files of a folder.
type File struct {
	Name   string            // of the file or folder
	Moment string            // @TIME of a record; empty for others
	Blobs  map[string]string // by the path within a folder; "." for a file
}

// SendFile puts a file, or all files of a folder, into the queue. A path may end in @TIME.
func SendFile(ctx context.Context, queue *workers.Queue, path string) (*File, error) {
	f := &File{Blobs: map[string]string{}}
	if _, err := os.Stat(path); err != nil {
		if at := strings.LastIndexByte(path, '@'); at >= 0 {
			path, f.Moment = path[:at], path[at:]
		}
	}
	f.Name = filepath.Base(path)
	err := filepath.WalkDir(path, func(at string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		within, err := filepath.Rel(path, at)
		if err != nil {
			return err
		}
		data, err := os.ReadFile(at)
		if err == nil {
			f.Blobs[filepath.ToSlash(within)], err = queue.Put(ctx, data)
		}
		return err
	})
	return f, err
}

// Write puts the file or folder below dir, and returns its path.
func (f *File) Write(dir string, blob Blob) (string, error) {
	if f == nil {
		return "", errors.New("no file came with it")
	}
	if !filepath.IsLocal(f.Name) {
		return "", fmt.Errorf("%q is no name of a file", f.Name)
	}
	if f.Moment != "" && (f.Moment[0] != '@' || strings.ContainsRune(f.Moment, filepath.Separator)) {
		return "", fmt.Errorf("%q is no moment of a record", f.Moment)
	}
	dir, err := os.MkdirTemp(dir, "")
	if err != nil {
		return "", err
	}
	for within, of := range f.Blobs {
		path := filepath.Join(dir, f.Name)
		if within != "." {
			if !filepath.IsLocal(within) {
				return "", fmt.Errorf("%q is no path within a folder", within)
			}
			path = filepath.Join(path, within)
		}
		data, err := read(of, blob)
		if err == nil {
			err = os.MkdirAll(filepath.Dir(path), 0o700)
		}
		if err == nil {
			err = os.WriteFile(path, data, 0o600)
		}
		if err != nil {
			return "", err
		}
	}
	return filepath.Join(dir, f.Name) + f.Moment, nil
}

func read(name string, blob Blob) ([]byte, error) {
	path, err := blob(name)
	if err != nil {
		return nil, err
	}
	return os.ReadFile(path)
}
