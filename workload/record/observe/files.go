package observe

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"time"
)

// File is a file of objects.
type File struct {
	Objects
	Path string
	At   int64 // milliseconds since 1970
}

// Older compares files by their times, and files with equal times, such as copies, by the newest times in them.
func Older(a, b File) int {
	return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Newest.At, b.Newest.At))
}

// moment is the longest time between files of one look.
const moment = int64(2 * time.Minute / time.Millisecond)

// beside reports whether files are of one folder and about the same time. Each may then list a part, such as the pods of one node or
// with one label.
func beside(a, b File) bool {
	near := func(x, y int64) bool { return x > 0 && y > 0 && max(x-y, y-x) <= moment }
	return filepath.Dir(a.Path) == filepath.Dir(b.Path) && (near(a.At, b.At) || near(a.Newest.At, b.Newest.At))
}

// look is a look that is being put together.
type look struct {
	files  []File
	listed map[part]File // the last file that lists a part
	scope  scope
}

// later reports whether a file belongs to a later look: it lists an object of the look again. A list may be only a part of one, as with
// --field-selector or -l. So consecutive files without a common object are one look.
func (l *look) later(f File) bool {
	for n := range f.scope.names {
		if l.scope.names[n] {
			return true
		}
	}
	shares := false
	for k := range f.scope.listed {
		_, has := l.scope.listed[k]
		shares = shares || has
	}
	for p := range f.scope.covers {
		if last, again := l.listed[p]; again && p.namespace != everywhere && (shares || !beside(last, f)) {
			return true
		}
	}
	return false
}

func (l *look) add(f File) {
	l.files = append(l.files, f)
	for p := range f.scope.covers {
		l.listed[p] = f
	}
	maps.Copy(l.scope.names, f.scope.names)
	maps.Copy(l.scope.listed, f.scope.listed)
}

func newLook(f File) *look {
	out := &look{listed: map[part]File{}, scope: newScope()}
	out.add(f)
	return out
}

// Looks groups the files of one look at the cluster: none of them lists an object again that another one lists. The looks are in the order
// of their newest files' times. A file that is older than an earlier one with the same object is an error.
func Looks(files []File) ([][]File, error) {
	last := map[part]*look{}
	for _, f := range files {
		now := newLook(f)
		for p := range f.scope.covers {
			if before := last[p]; before != nil && p.namespace != everywhere && f.At < before.files[0].At && before.later(f) {
				return nil, fmt.Errorf("%s is older than %s, which lists the same; name the files in the order of their times",
					f.Path, before.files[0].Path)
			}
			last[p] = now
		}
	}
	files = slices.Clone(files)
	slices.SortStableFunc(files, Older)
	var out [][]File
	var now *look
	for _, f := range files {
		if now == nil || now.later(f) {
			now, out = newLook(f), append(out, nil)
		} else {
			now.add(f)
		}
		out[len(out)-1] = now.files
	}
	return out, nil
}

// Disorder finds an object with a newer time in an earlier look than in a later one: the files' times are then wrong. earlier is empty if
// there is none.
func Disorder(looks [][]File) (earlier, later, object string) {
	type seen struct {
		at   int64
		file string
	}
	last := map[objectKey]seen{}
	for _, files := range looks {
		for _, f := range files {
			for _, k := range inOrder(f.scope.listed) {
				at := f.scope.listed[k]
				if before := last[k]; before.at > at && at > 0 {
					return before.file, f.Path, k.name
				}
				last[k] = seen{at, f.Path}
			}
		}
	}
	return "", "", ""
}
