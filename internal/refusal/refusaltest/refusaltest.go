// Package refusaltest holds an API server for tests that has no objects and forbids to read some resources.
package refusaltest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Server is the API server. It accepts every write and keeps nothing.
type Server struct {
	URL string

	mu      sync.Mutex
	forbids map[string]bool // verbs and resources, such as "list services"
	refused int
	ended   chan struct{}
}

// New starts a server that forbids requests such as "list services". It ends with the test.
func New(t *testing.T, forbids ...string) *Server {
	t.Helper()
	s := &Server{ended: make(chan struct{})}
	s.Forbid(forbids...)
	h := httptest.NewServer(s)
	t.Cleanup(func() {
		close(s.ended) // watches hold their connections
		h.Close()
	})
	s.URL = h.URL
	return s
}

// Forbid forbids these requests and no others from now on.
func (s *Server) Forbid(requests ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forbids = map[string]bool{}
	for _, r := range requests {
		s.forbids[r] = true
	}
}

// Refused returns the number of refused requests so far.
func (s *Server) Refused() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.refused
}

// Kubeconfig writes a kubeconfig of the server, and returns its path.
func (s *Server) Kubeconfig(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config")
	text := fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","clusters":[{"name":"c","cluster":{"server":%q}}],
		"contexts":[{"name":"c","context":{"cluster":"c","user":""}}],"current-context":"c"}`, s.URL)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	path := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	switch {
	case r.Method != http.MethodGet:
		w.Header().Set("Content-Type", r.Header.Get("Content-Type"))
		w.WriteHeader(http.StatusCreated)
		io.Copy(w, r.Body) //nolint:errcheck // the client sees it
	case strings.HasSuffix(path[0], "z"): // the state of its health
		io.WriteString(w, "ok") //nolint:errcheck // as above
	case path[0] == "version":
		io.WriteString(w, `{"major":"1","minor":"36","gitVersion":"v1.36.0"}`) //nolint:errcheck // as above
	case len(path) == 3 && path[0] == "api":
		s.read(w, r, schema.GroupResource{Resource: path[2]})
	case len(path) == 4 && path[0] == "apis":
		s.read(w, r, schema.GroupResource{Group: path[1], Resource: path[3]})
	default:
		answer(w, apierrors.NewNotFound(schema.GroupResource{}, r.URL.Path))
	}
}

// read answers a list with nothing, and a watch not at all.
func (s *Server) read(w http.ResponseWriter, r *http.Request, what schema.GroupResource) {
	verb := "list"
	if r.URL.Query().Has("watch") {
		verb = "watch"
	}
	if s.forbidden(verb + " " + what.String()) {
		answer(w, apierrors.NewForbidden(what, "", errors.New("no")))
		return
	}
	if verb == "list" {
		io.WriteString(w, `{"metadata":{"resourceVersion":"1"},"items":[]}`) //nolint:errcheck // as above
		return
	}
	if r.URL.Query().Has("sendInitialEvents") { // an older server, which clients then ask for a list
		answer(w, apierrors.NewInvalid(schema.GroupKind{}, "", nil))
		return
	}
	w.WriteHeader(http.StatusOK)
	http.NewResponseController(w).Flush() //nolint:errcheck // as above
	select {
	case <-r.Context().Done():
	case <-s.ended:
	}
}

func (s *Server) forbidden(request string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.forbids[request] {
		s.refused++
	}
	return s.forbids[request]
}

func answer(w http.ResponseWriter, err *apierrors.StatusError) {
	status := err.Status()
	status.APIVersion, status.Kind = "v1", "Status"
	w.WriteHeader(int(status.Code))
	json.NewEncoder(w).Encode(status) //nolint:errcheck // as above
}
