// Package refusal reports which requests an API server forbids to its user. Reflectors never end because of a refusal: they log it again at
// each try, and do not name the verb. This package reports each refused verb and resource once.
package refusal

import (
	"fmt"
	"net/http"
	"strings"
	"sync"

	"gnnsched/internal/exit"
)

// Request is something that a user may or may not do.
type Request struct{ Verb, Group, Resource string }

// Name returns, for example, "nodes" or "replicasets.apps".
func (r Request) Name() string {
	if r.Group == "" {
		return r.Resource
	}
	return r.Resource + "." + r.Group
}

// String returns, for example, "list nodes" or "watch replicasets.apps".
func (r Request) String() string { return r.Verb + " " + r.Name() }

// Error returns an error of exit code 4 for the refused request, with the reason why it is the end.
func (r Request) Error(why, hint string) error {
	return exit.New(exit.Kubeconfig, fmt.Errorf("the cluster does not let this user %s; %s", r, why), hint)
}

// Tally remembers which requests were granted and which are refused. Its zero value remembers none.
type Tally struct {
	mu      sync.Mutex
	granted map[Request]bool // ever
	refused map[Request]bool // by the last answer
}

// Granted notes a granted request. It returns true if the request was refused before.
func (t *Tally) Granted(r Request) (again bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.granted == nil {
		t.granted = map[Request]bool{}
	}
	again = t.refused[r]
	t.granted[r] = true
	delete(t.refused, r)
	return again
}

// Refused notes a refused request. first is true unless the last answer was a refusal, too; never is true if the request was never
// granted. A reflector that may watch does not list (client-go's WatchListClient) before the watch fails, so a granted watch counts for
// a list.
func (t *Tally) Refused(r Request) (first, never bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.refused == nil {
		t.refused = map[Request]bool{}
	}
	first = !t.refused[r]
	t.refused[r] = true
	watch := Request{"watch", r.Group, r.Resource}
	return first, !t.granted[r] && !(r.Verb == "list" && t.granted[watch])
}

// any reports whether a request about the resource is refused.
func (t *Tally) any(group, resource string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for r := range t.refused {
		if r.Group == group && r.Resource == resource {
			return true
		}
	}
	return false
}

// requestOf returns the verb and resource of an HTTP request; false if it reads or writes no resource. base is the API server's base path,
// such as a proxy's; often empty.
func requestOf(r *http.Request, base string) (Request, bool) {
	var out Request
	below, is := strings.CutPrefix(strings.Trim(r.URL.Path, "/")+"/", base)
	if r.Method != http.MethodGet || !is {
		return out, false
	}
	path := strings.Split(strings.TrimSuffix(below, "/"), "/")
	rest := path[1:]
	switch {
	case path[0] == "apis" && len(rest) > 0:
		out.Group, rest = rest[0], rest[1:]
	case path[0] != "api":
		return out, false
	}
	if len(rest) < 2 { // the version, then the resource
		return out, false
	}
	rest = rest[1:]
	if len(rest) > 2 && rest[0] == "namespaces" {
		rest = rest[2:]
	}
	out.Resource, out.Verb = rest[0], "get"
	if len(rest) > 2 {
		out.Resource += "/" + rest[2]
	}
	if len(rest) == 1 {
		out.Verb = "list"
		if w := r.URL.Query().Get("watch"); w == "true" || w == "1" {
			out.Verb = "watch"
		}
	}
	return out, true
}
