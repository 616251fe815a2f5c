package record

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Moment is a record at a time.
type Moment struct {
	Dir string
	At  int64 // milliseconds since 1970; 0: the end of the record
}

// ParseMoment reads "prod.record", which means the record's end, or "prod.record@2026-03-01T12:00:00Z". ok is false if
// the path names no record.
func ParseMoment(path string) (m Moment, ok bool, err error) {
	if Is(path) {
		return Moment{Dir: path}, true, nil
	}
	i := strings.LastIndexByte(path, '@')
	if i < 0 || !Is(path[:i]) {
		return Moment{}, false, nil
	}
	at, err := time.Parse(time.RFC3339, path[i+1:])
	if err != nil || at.UnixMilli() <= 0 {
		return Moment{}, true, fmt.Errorf("%s: %q is no time such as 2026-03-01T12:00:00Z", path[:i], path[i+1:])
	}
	return Moment{Dir: path[:i], At: at.UnixMilli()}, true, nil
}

// NodesAt returns the nodes that were there at a time, by name; 0 means the end of the record.
func (r *Record) NodesAt(at int64) ([]Node, error) {
	all, err := r.Nodes()
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, errors.New("the record has no nodes")
	}
	first := slices.MinFunc(all, func(a, b Node) int { return cmp.Compare(a.From, b.From) }).From
	all = slices.DeleteFunc(all, func(n Node) bool {
		if at == 0 {
			return n.To != 0
		}
		return n.From > at || n.To != 0 && n.To <= at
	})
	if len(all) == 0 {
		return nil, fmt.Errorf("no node was there at that time; the record begins at %s", time.UnixMilli(first).UTC().Format(time.RFC3339))
	}
	return all, nil
}
