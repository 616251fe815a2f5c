package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	ucli "github.com/urfave/cli/v2"

	"gnnsched/internal/cli"
	"gnnsched/internal/exit"
)

// The server ends at once if the user lacks a right that upstream's plugins need: it would never be ready.
func TestRefused(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.Method == http.MethodPost { // a question about a right
			w.WriteHeader(http.StatusCreated)
			io.WriteString(w, `{"apiVersion":"authorization.k8s.io/v1","kind":"SelfSubjectAccessReview","status":{"allowed":false}}`) //nolint:errcheck // the client sees it
		}
	}))
	defer s.Close()
	path := filepath.Join(t.TempDir(), "config")
	config := fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","clusters":[{"name":"c","cluster":{"server":%q}}],
		"contexts":[{"name":"c","context":{"cluster":"c","user":""}}],"current-context":"c"}`, s.URL)
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	app := &ucli.App{Name: "gnnsched", Writer: &out, ErrWriter: &out, Commands: []*ucli.Command{serveCommand()}}
	code := cli.RunContext(t.Context(), app, []string{
		"gnnsched", "serve", "--kubeconfig", path, "--port", "0", "--cert-dir", t.TempDir(), "--log-dir", t.TempDir(),
	})
	if code != exit.Kubeconfig || !strings.Contains(out.String(), "watch replicasets.apps") || !strings.Contains(out.String(), "serve --print-rbac") {
		t.Errorf("exit code %d: %s", code, out.String())
	}
}
