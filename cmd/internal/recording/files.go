package recording

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"gnnsched/internal/exit"
	"gnnsched/workload/record/observe"
)

const (
	kubectl = "kubectl get pods,nodes -A -o json prints such a file"
	logIn   = "kubectl auth can-i list pods -A says whether you may read them; log in, and run kubectl get again"
	broken  = "a file that is cut off, packed or malformed may lack pods; make it anew, or take it out of the folder"
)

// readFiles reads files and the files of folders. It returns an error if none has a node or a pod.
func readFiles(paths []string) (out []observe.File, all sayings, err error) {
	found := false
	for _, path := range paths {
		inside, err := dumped(path)
		if err != nil {
			return nil, all, exit.New(exit.Usage, err, kubectl)
		}
		all.passed = append(all.passed, inside.passed...)
		before := len(out)
		for _, p := range inside.files {
			f, err := readFile(p)
			switch refusal := (observe.Refusal{}); {
			case errors.As(err, &refusal):
				return nil, all, exit.New(exit.Usage, err, logIn)
			case inside.folder && observe.NoObjects(err):
				all.other.Join(p, observe.Few{Objects: 1, First: errors.Unwrap(err).Error()})
				continue
			case inside.folder && err != nil:
				return nil, all, exit.New(exit.Usage, err, broken)
			case err != nil:
				return nil, all, exit.New(exit.Usage, err, kubectl)
			}
			found = found || len(f.Nodes)+len(f.Pods) > 0
			all.doubted.Join(f.Path, f.Doubt())
			all.add(&f)
			out = append(out, f)
		}
		slices.SortStableFunc(out[before:], observe.Older)
	}
	all.date(out)
	if !found {
		return nil, all, exit.New(exit.Usage, fmt.Errorf("%s: no node and no pod%s", strings.Join(paths, ", "), all.instead()), kubectl)
	}
	return out, all, nil
}

// inside lists the files that an argument names.
type inside struct {
	files  []string
	folder bool
	passed []string // skipped files of the folder
}

// endings are the endings of file names that are read in a folder.
var endings = []string{".json", ".jsonl", ".yaml", ".yml"}

// dumped returns the JSON and YAML files in a folder and in those below it, as kubectl cluster-info dump, must-gather and support bundles
// write them. A path of a file names that file only.
func dumped(path string) (out inside, err error) {
	if path == "-" {
		return inside{files: []string{path}}, nil
	}
	if info, err := os.Stat(path); err != nil || !info.IsDir() {
		return inside{files: []string{path}}, err
	}
	out.folder = true
	root := strings.TrimSuffix(path, "/") + "/" // the folder to which a link leads
	read := map[string]bool{}
	err = filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && strings.HasSuffix(p, "-preferredversion") {
			return fs.SkipDir // Velero has the same objects beside it
		}
		if err != nil || d.IsDir() {
			return err
		}
		file, _ := filepath.EvalSymlinks(p) // for a broken link, isRegular returns the error
		switch {
		case read[file]: // by another name
		case slices.Contains(endings, strings.ToLower(filepath.Ext(p))) && isRegular(p):
			out.files = append(out.files, p)
			read[file] = true
		default:
			out.passed = append(out.passed, p)
		}
		return nil
	})
	if err == nil && len(out.files) == 0 {
		err = fmt.Errorf("%s: the folder has no .json or .yaml file", path)
	}
	return out, err
}

// isRegular reports whether a path leads to a regular file, also by a link. Opening a pipe could wait forever.
func isRegular(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

func readFile(path string) (observe.File, error) {
	if path == "-" {
		o, err := observe.ReadObjects(os.Stdin, "standard input")
		return observe.File{Objects: o, Path: "standard input", At: time.Now().UnixMilli()}, err
	}
	f, err := os.Open(path)
	if err != nil {
		return observe.File{}, err
	}
	defer f.Close() // it is only read
	info, err := f.Stat()
	if err != nil {
		return observe.File{}, err
	}
	o, err := observe.ReadObjects(f, path)
	return observe.File{Objects: o, Path: path, At: max(info.ModTime().UnixMilli(), 1)}, err
}
