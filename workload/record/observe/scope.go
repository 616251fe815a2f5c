package observe

import "gnnsched/workload/record"

// listing is a list of objects, or an object by itself.
type listing struct {
	kinds      map[string]bool // of the list's objects that a record holds; nil for an object by itself
	namespaces map[string]bool // of all its objects
}

func (l *listing) namespace(name string) {
	if name != "" {
		l.namespaces[name] = true
	}
}

// part names what a list covers: the objects of a kind in a namespace. The namespace is empty for kinds that have none, and everywhere for
// all namespaces.
type part struct{ kind, namespace string }

const everywhere = "*"

// scope holds what lists cover. An object that a list covers and lacks does not exist. A list says nothing about other objects: `kubectl
// get -n`, the files of `kubectl cluster-info dump`, of must-gather and of support bundles list one namespace each.
type scope struct {
	covers map[part]bool
	names  map[objectKey]bool  // of objects by themselves
	listed map[objectKey]int64 // the newest times of objects in lists
	unread map[objectKey]bool  // objects that are there and cannot be read
}

func newScope() scope {
	return scope{map[part]bool{}, map[objectKey]bool{}, map[objectKey]int64{}, map[objectKey]bool{}}
}

// add adds the objects that a list covers. One command lists the objects of one namespace or of all. So a list with objects of several
// namespaces covers all of them, and another one the namespace of its objects.
func (s scope) add(l *listing) {
	for kind := range l.kinds {
		if spaceless[kind] {
			s.covers[part{kind, ""}] = true
			continue
		}
		for n := range l.namespaces {
			s.covers[part{kind, n}] = true
		}
		if len(l.namespaces) > 1 {
			s.covers[part{kind, everywhere}] = true
		}
	}
}

// spaceless are the kinds whose objects are in no namespace.
var spaceless = map[string]bool{kindNode: true, record.KindNamespace: true, record.KindPriorityClass: true}

// gone reports whether the lists cover an object that is not in them. Those who call it add the listed objects again.
func (s scope) gone(k objectKey) bool { return s.covered(k.kind, k.namespace) && !s.unread[k] }

// covered reports whether objects of a kind in a namespace are there only if they are listed.
func (s scope) covered(kind, namespace string) bool {
	return s.covers[part{kind, namespace}] || s.covers[part{kind, everywhere}]
}
