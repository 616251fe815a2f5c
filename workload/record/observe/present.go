package observe

import (
	"maps"

	corev1 "k8s.io/api/core/v1"

	"gnnsched/workload/record"
)

// address notes the addresses of a node and the name that its machine gives itself.
func (f *Follower) address(n *corev1.Node) {
	all := []string{n.Labels[corev1.LabelHostname]}
	for _, a := range n.Status.Addresses {
		all = append(all, a.Address)
	}
	for _, a := range all {
		if name, taken := f.addresses[a]; taken && name != n.Name {
			f.addresses[a] = ""
		} else if a != "" {
			f.addresses[a] = n.Name
		}
	}
}

// Present holds the objects present at a time, by their real names.
type Present struct {
	names     *record.Anonymiser
	there     map[[2]string]bool
	addresses map[string]string
}

// Present returns the nodes and pods that are there now.
func (f *Follower) Present() Present {
	f.mu.Lock()
	defer f.mu.Unlock()
	p := Present{f.names, make(map[[2]string]bool, len(f.nodes.now)+len(f.pods)), maps.Clone(f.addresses)}
	for name := range f.nodes.now {
		p.there[[2]string{"", name}] = true
	}
	for _, x := range f.pods {
		p.there[[2]string{x.Namespace, x.Name}] = true
	}
	return p
}

// Pod reports whether a pod is there.
func (p Present) Pod(namespace, name string) bool {
	s := record.Sample{Namespace: namespace, Name: name}
	record.Anonymise(p.names, &s)
	return p.there[[2]string{s.Namespace, s.Name}]
}

// Node returns the first node that has one of the names or addresses, else "".
func (p Present) Node(names []string) string {
	for _, name := range names {
		for _, real := range []string{name, p.addresses[name]} {
			if real != "" && p.Pod("", real) {
				return real
			}
		}
	}
	return ""
}
