package sktrace

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/tinylib/msgp/msgp"
)

// version is the version of the format.
const version = 2

// MaxFile is the size in bytes of the largest trace that is read.
const MaxFile = 1 << 30

const (
	maxCount  = 10_000_000 // of events, of objects in them, and of lifecycles
	maxObject = 4 << 20    // bytes of an object; API servers take 3 MiB
	maxDepth  = 64         // of values in values
)

// Trace is a trace of SimKube.
type Trace struct {
	templates  map[string]string // JSON pointers to the pod templates, by kind as in apps/v1.Deployment
	events     []event           // by time
	lifecycles map[ownerKey][]life
	count      int // of what maxCount bounds
	notes      []string
}

// event holds objects that were applied and deleted at a time, in seconds since 1970. The objects are msgpack.
type event struct {
	at               int64
	applied, deleted [][]byte
}

// ownerKey names an owner by its kind, as in apps/v1.Deployment, and by namespace/name.
type ownerKey struct{ kind, name string }

// life is when a pod's containers ran, in seconds since 1970; end is 0 if they still did, and start, too, if they never ran.
type life struct{ start, end int64 }

// Parse reads a trace.
func Parse(data []byte) (*Trace, error) {
	if len(data) > MaxFile {
		return nil, fmt.Errorf("the trace has more than %d bytes", MaxFile)
	}
	if len(data) > 0 && msgp.NextType(data) != msgp.MapType {
		return nil, errors.New("no trace of SimKube: it is no map, as those of SimKube 2 are")
	}
	t := &Trace{templates: map[string]string{}, lifecycles: map[ownerKey][]life{}}
	found := map[string]bool{}
	rest, err := eachField(data, func(name string, value []byte) (err error) {
		found[name] = true
		switch name {
		case "version":
			var is int64
			if is, _, err = msgp.ReadInt64Bytes(value); err == nil && is != version {
				err = fmt.Errorf("it is %d, and this program reads %d, which SimKube 2.0 to 2.7 writes", is, version)
			}
		case "config":
			err = t.config(value)
		case "events":
			err = t.readEvents(value)
		case "pod_lifecycles":
			err = t.readLifecycles(value)
		case "index": // hashes of the objects
		default:
			t.notes = append(t.notes, fmt.Sprintf("the field %.100q of the trace is not known", name))
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		return nil
	})
	switch {
	case err != nil:
		return nil, fmt.Errorf("no trace of SimKube: %w", err)
	case !found["version"] || !found["events"]:
		return nil, errors.New("no trace of SimKube: the fields version and events are missing")
	case len(rest) > 0:
		t.notes = append(t.notes, fmt.Sprintf("%d bytes follow the trace", len(rest)))
	}
	slices.SortStableFunc(t.events, func(a, b event) int { return cmp.Compare(a.at, b.at) })
	return t, nil
}

// eachField calls f with the fields of a map whose keys are texts, and returns what follows the map.
func eachField(b []byte, f func(name string, value []byte) error) (rest []byte, err error) {
	return eachPair(b, func(key, value []byte) error {
		name, _, err := msgp.ReadStringBytes(key)
		if err != nil {
			return err
		}
		return f(name, value)
	})
}

// eachPair calls f with the keys and values of a map.
func eachPair(b []byte, f func(key, value []byte) error) (rest []byte, err error) {
	n, b, err := msgp.ReadMapHeaderBytes(b)
	for ; n > 0 && err == nil; n-- {
		var key, value []byte
		if key, b, err = next(b); err != nil {
			break
		}
		if value, b, err = next(b); err == nil {
			err = f(key, value)
		}
	}
	return b, err
}

// eachItem calls f with the items of a list.
func eachItem(b []byte, f func(item []byte) error) error {
	n, b, err := msgp.ReadArrayHeaderBytes(b)
	for ; n > 0 && err == nil; n-- {
		var item []byte
		if item, b, err = next(b); err == nil {
			err = f(item)
		}
	}
	return err
}

// next cuts the first value off.
func next(b []byte) (value, rest []byte, err error) {
	rest, err = msgp.Skip(b)
	return b[:len(b)-len(rest)], rest, err
}

// counted counts one more part of the trace.
func (t *Trace) counted() error {
	if t.count++; t.count > maxCount {
		return fmt.Errorf("the trace has more than %d events, objects and lifecycles", maxCount)
	}
	return nil
}

// config reads where pod templates are: podSpecTemplatePath, or the first of podSpecTemplatePaths of later programs.
func (t *Trace) config(b []byte) error {
	if len(b) > maxObject {
		return fmt.Errorf("it has %d bytes", len(b))
	}
	x, err := value(b, maxDepth)
	if err != nil {
		return err
	}
	top, _ := x.(map[string]any)
	tracked, _ := top["trackedObjects"].(map[string]any)
	for kind, x := range tracked {
		object, _ := x.(map[string]any)
		path, is := object["podSpecTemplatePath"].(string)
		if all, _ := object["podSpecTemplatePaths"].([]any); !is && len(all) > 0 {
			path, is = all[0].(string)
			if len(all) > 1 {
				t.notes = append(t.notes, fmt.Sprintf("%.100q has %d pod templates; the first counts", kind, len(all)))
			}
		}
		if is {
			t.templates[kind] = path
		}
	}
	return nil
}

func (t *Trace) readEvents(b []byte) error {
	return eachItem(b, func(item []byte) error {
		var e event
		_, err := eachField(item, func(name string, value []byte) (err error) {
			list := func(to *[][]byte) error {
				return eachItem(value, func(object []byte) error { *to = append(*to, object); return t.counted() })
			}
			switch name {
			case "ts":
				e.at, _, err = msgp.ReadInt64Bytes(value)
			case "applied_objs":
				err = list(&e.applied)
			case "deleted_objs":
				err = list(&e.deleted)
			}
			return err
		})
		if err == nil && (e.at < 0 || e.at > maxSeconds) {
			err = fmt.Errorf("the time %d is not in 1970 to 9999", e.at)
		}
		t.events = append(t.events, e)
		return cmp.Or(err, t.counted())
	})
}

// maxSeconds is the end of the year 9999.
const maxSeconds = 253402300799

// readLifecycles reads when pods ran: [kind, namespace/name] to the hash of a pod's spec to a list. Which template a hash means is not
// known.
func (t *Trace) readLifecycles(b []byte) error {
	_, err := eachPair(b, func(key, byHash []byte) error {
		var words []string
		err := eachItem(key, func(item []byte) error {
			word, _, err := msgp.ReadStringBytes(item)
			words = append(words, word)
			return err
		})
		if err != nil || len(words) != 2 {
			return cmp.Or(err, errors.New("a key is not [kind, namespace/name]"))
		}
		_, err = eachPair(byHash, func(_, list []byte) error {
			return eachItem(list, func(item []byte) error {
				l, err := lifeOf(item)
				k := ownerKey{words[0], words[1]}
				t.lifecycles[k] = append(t.lifecycles[k], l)
				return cmp.Or(err, t.counted())
			})
		})
		return err
	})
	for _, all := range t.lifecycles {
		slices.SortFunc(all, func(a, b life) int { return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(a.end, b.end)) })
	}
	return err
}

// lifeOf reads "Empty", {"Running": start} or {"Finished": [start, end]}.
func lifeOf(b []byte) (l life, err error) {
	if msgp.NextType(b) == msgp.StrType {
		return l, nil
	}
	_, err = eachField(b, func(name string, value []byte) (err error) {
		switch name {
		case "Running":
			l.start, _, err = msgp.ReadInt64Bytes(value)
		case "Finished":
			var times []int64
			err = eachItem(value, func(item []byte) error {
				t, _, err := msgp.ReadInt64Bytes(item)
				times = append(times, t)
				return err
			})
			if len(times) == 2 {
				l = life{times[0], max(times[1], times[0])}
			}
		default:
			err = fmt.Errorf("the lifecycle %.100q is not known", name)
		}
		return err
	})
	if err == nil && (l.start < 0 || l.end > maxSeconds || l.start > maxSeconds) {
		err = fmt.Errorf("the times %d to %d are not in 1970 to 9999", l.start, l.end)
	}
	return l, err
}

// toJSON returns an object as JSON.
func toJSON(b []byte) (json.RawMessage, error) {
	if len(b) > maxObject {
		return nil, fmt.Errorf("it has %d bytes, and API servers take 3 MiB", len(b))
	}
	x, err := value(b, maxDepth)
	if err != nil {
		return nil, err
	}
	return json.Marshal(x)
}

// value reads a value that JSON can have.
func value(b []byte, depth int) (x any, err error) {
	if depth == 0 {
		return nil, fmt.Errorf("values are in values over %d deep", maxDepth)
	}
	switch msgp.NextType(b) {
	case msgp.MapType:
		out := map[string]any{}
		_, err = eachField(b, func(name string, v []byte) (err error) {
			out[name], err = value(v, depth-1)
			return err
		})
		return out, err
	case msgp.ArrayType:
		out := []any{}
		err = eachItem(b, func(v []byte) error {
			item, err := value(v, depth-1)
			out = append(out, item)
			return err
		})
		return out, err
	case msgp.StrType, msgp.BoolType, msgp.IntType, msgp.UintType, msgp.Float32Type, msgp.Float64Type, msgp.NilType:
		x, _, err = msgp.ReadIntfBytes(b)
		return x, err
	}
	return nil, fmt.Errorf("a value of type %v, which no object of Kubernetes has", msgp.NextType(b))
}
