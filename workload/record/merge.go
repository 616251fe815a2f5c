package record

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
)

// Numbers of flushes whose parts become one file. With a flush every five minutes, a file holds an hour, then a day.
var mergeSizes = []int{12, 288}

// Merge merges small parts into larger ones and drops rows that later ones replaced. With a cutoff over 0 it also drops, from the parts
// that were last written before it, pods, nodes and objects that ended before, and samples of before. At every moment, readers see the
// whole record, or with a cutoff its remaining part. Parts that cannot be merged are not tried again. Calls must not overlap.
func (w *Writer) Merge(cutoff int64) error {
	w.mu.Lock()
	next := w.next
	w.mu.Unlock()
	parts, _, err := list(w.dir)
	if err != nil {
		return err
	}
	var errs []error
	for _, table := range tables {
		of := slices.DeleteFunc(slices.Clone(parts), func(p part) bool { return p.table != table })
		errs = append(errs, w.mergeTable(of, next, cutoff))
	}
	return errors.Join(errs...)
}

func (w *Writer) mergeTable(parts []part, next int, cutoff int64) error {
	if len(parts) == 0 {
		return nil
	}
	merge := map[string]func(string, []part, int64) error{
		"pods": mergeParts[Pod], "nodes": mergeParts[Node], "objects": mergeParts[Object], "usage": mergeParts[Sample], "runs": mergeParts[Run],
	}[parts[0].table]
	// Rows that ended are dropped only from the oldest parts, taken together. An earlier part could otherwise keep the
	// row of when the pod still ran, and readers would take it for running again.
	aged := 0
	for cutoff > 0 && aged < len(parts) && old(w.dir, parts[aged], cutoff) {
		aged++
	}
	all := groups(parts[aged:], next)
	if aged > 0 {
		all = slices.Insert(all, 0, parts[:aged])
	}
	var errs []error
	for i, group := range all {
		if w.failed[group[0]] {
			continue
		}
		limit := int64(0)
		if aged > 0 && i == 0 {
			limit = cutoff
		}
		if err := merge(w.dir, group, limit); err != nil {
			w.failed[group[0]] = true
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// old reports whether a file was last written before the cutoff. Rewriting it makes it young, so it is examined once in the retention time.
func old(dir string, p part, cutoff int64) bool {
	info, err := os.Stat(filepath.Join(dir, p.file()))
	return err == nil && info.ModTime().UnixMilli() < cutoff
}

// groups returns lists of parts that are to become one each: all parts within a period of flushes that is over.
func groups(parts []part, next int) (out [][]part) {
	for i := 0; i < len(parts); {
		j := i + 1
		for _, size := range mergeSizes {
			period := (parts[i].first - 1) / size
			if (period+1)*size >= next {
				break // not over
			}
			for j < len(parts) && (parts[j].last-1)/size == period {
				j++
			}
		}
		if j-i > 1 {
			out = append(out, parts[i:j])
		}
		i = j
	}
	return out
}

// mergeParts merges parts into one, or rewrites a single one. It reads the newest first, so that it needs to keep only the keys that it has
// seen. An unreadable part stays as it is, and so do the others of its group.
func mergeParts[T row](dir string, group []part, cutoff int64) error {
	to := part{group[0].table, group[0].first, group[len(group)-1].last}
	seen, kept := map[key]bool{}, 0
	repeats := to.table != "usage" // samples have keys of their own
	err := write(dir, to, func(put func([]T) error) error {
		for _, p := range slices.Backward(group) {
			err := readFile(dir, p, func(rows []T) error {
				rows = slices.DeleteFunc(rows, func(r T) bool {
					k := keyOf(&r)
					if repeats && seen[k] {
						return true
					}
					if repeats {
						seen[k] = true
					}
					return over(&r) > 0 && over(&r) < cutoff
				})
				kept += len(rows)
				return put(rows)
			}, func(err error) error { return err })
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, p := range group {
		if p == to && kept > 0 {
			continue
		}
		if err := os.Remove(filepath.Join(dir, p.file())); err != nil {
			return err
		}
	}
	return nil
}

// over returns when a row ceased to matter; 0 if it still does.
func over[T row](r *T) int64 {
	switch x := any(r).(type) {
	case *Pod:
		return x.Ended
	case *Node:
		return x.To
	case *Object:
		return x.To
	case *Sample:
		return x.Time
	}
	return 0
}
