package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	ucli "github.com/urfave/cli/v2"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"gnnsched/cmd/internal/top"
	"gnnsched/internal/cli"
	"gnnsched/internal/exit"
	"gnnsched/internal/fatal"
)

// ktopServer starts an API server that answers the requests of ktop --once, and returns a kubeconfig
// for it.
func ktopServer(t *testing.T) string {
	t.Helper()
	nodes := v1.NodeList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "NodeList"}}
	for _, name := range []string{"node-10", "node-9"} {
		nodes.Items = append(nodes.Items, v1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Status: v1.NodeStatus{Allocatable: v1.ResourceList{
				"cpu": resource.MustParse("4"), "memory": resource.MustParse("8Gi"), "pods": resource.MustParse("110"),
			}},
		})
	}
	pods := v1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}, Items: []v1.Pod{{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p"},
		Spec: v1.PodSpec{NodeName: "node-10", SchedulerName: "gnn", Containers: []v1.Container{{
			Resources: v1.ResourceRequirements{Requests: v1.ResourceList{"cpu": resource.MustParse("1")}},
		}}},
	}}}
	mux := http.NewServeMux()
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") })
	for path, list := range map[string]any{"/api/v1/nodes": nodes, "/api/v1/pods": pods} {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			if err := json.NewEncoder(w).Encode(list); err != nil {
				t.Error(err)
			}
		})
	}
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	path := filepath.Join(t.TempDir(), "kubeconfig")
	config := fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"sim","clusters":[{"name":"sim","cluster":{"server":%q}}],"users":[{"name":"u","user":{}}],"contexts":[{"name":"sim","context":{"cluster":"sim","user":"u"}}]}`, s.URL)
	fatal.If(t, os.WriteFile(path, []byte(config), 0o600))
	return path
}

func ktop(args ...string) (code int, stdout, stderr string) {
	var out, err bytes.Buffer
	a := app("ktop")
	a.Writer, a.ErrWriter = &out, &err
	code = cli.RunContext(context.Background(), a, append([]string{"ktop"}, args...))
	return code, out.String(), err.String()
}

func TestKtopPrints(t *testing.T) {
	config := ktopServer(t)
	for _, c := range []struct {
		args   []string
		stderr string
		check  func(stdout string) bool
	}{
		{[]string{"--once"}, "", func(s string) bool {
			return strings.HasPrefix(s, "NAME     STATUS     ROLES   AGE") && strings.Index(s, "node-9 ") < strings.Index(s, "node-10 ") &&
				strings.Contains(s, "TOTAL    0/2 ready")
		}},
		{[]string{"--once", "--token-file", config, "--server", "https://127.0.0.1:1", "--server", "https://127.0.0.1:2"}, "",
			func(s string) bool { return strings.Contains(s, "TOTAL") }},
		{nil, "ktop: stdout is not a terminal: printing once, as with --once\n", func(s string) bool { return strings.Contains(s, "1/8 (13%)") }},
		{[]string{"-o", "wide"}, "", func(s string) bool { return strings.Contains(s, "TAINTS") }},
		{[]string{"-o", "json", "--sort", "cpu"}, "", func(s string) bool {
			var d top.Document
			return json.Unmarshal([]byte(s), &d) == nil && d.Nodes[0].Name == "node-10" && d.Nodes[0].CPU.Requested == 1000
		}},
		{[]string{"--output=yaml", "--sort=cpu:asc"}, "", func(s string) bool {
			var d top.Document
			return yaml.UnmarshalStrict([]byte(s), &d) == nil && d.Nodes[0].Name == "node-9"
		}},
	} {
		code, stdout, stderr := ktop(append(c.args, "--kubeconfig", config)...)
		if code != exit.OK || stderr != c.stderr || !c.check(stdout) {
			t.Errorf("ktop %v: code %d, stderr %q, stdout\n%s", c.args, code, stderr, stdout)
		}
	}
}

func TestKtopRefuses(t *testing.T) {
	config := ktopServer(t)
	for _, c := range []struct {
		args []string
		want int
	}{
		{[]string{"--once", "-w"}, exit.Usage},
		{[]string{"-o", "xml"}, exit.Usage},
		{[]string{"--sort", "size"}, exit.Usage},
		{[]string{"--interval", "1ms"}, exit.Usage},
		{[]string{"--interval", "often"}, exit.Usage},
		{[]string{"--selector", "=="}, exit.Usage},
		{[]string{"--log-level", "loud"}, exit.Usage},
		{[]string{"node-9"}, exit.Usage},
		{[]string{"--nonsense"}, exit.Usage},
		{[]string{"--token-file", config, "--server", "https://127.0.0.1:1", "--server", "https://127.0.0.1:1/"}, exit.Usage},
		{[]string{"--token-file", config, "--server", "https://127.0.0.1:1", "--server", "http://127.0.0.1:2"}, exit.Usage},
		{[]string{"--token-file", config, "--server", "https://127.0.0.1:1,https://elsewhere.example:2"}, exit.Usage},
		{[]string{"--context", "other"}, exit.Kubeconfig},
		{[]string{"--kubeconfig", "/does/not/exist"}, exit.Kubeconfig},
	} {
		code, stdout, stderr := ktop(append([]string{"--kubeconfig", config}, c.args...)...)
		if code != c.want || stdout != "" || !strings.HasPrefix(stderr, "ktop: error: ") && !strings.Contains(stderr, "\nktop: error: ") {
			t.Errorf("ktop %v: code %d, want %d; stderr %q, stdout %q", c.args, code, c.want, stderr, stdout)
		}
	}
	dead := filepath.Join(t.TempDir(), "kubeconfig")
	b := fatal.Value(os.ReadFile(config))(t)
	fatal.If(t, os.WriteFile(dead, bytes.ReplaceAll(b, []byte("http://127.0.0.1"), []byte("http://127.0.0.1:1/#")), 0o600))
	if code, _, stderr := ktop("--kubeconfig", dead); code != exit.Unreachable || !strings.Contains(stderr, "hint: ") {
		t.Errorf("no cluster: code %d, stderr %q", code, stderr)
	}
}

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
	fatal.If(t, os.WriteFile(path, []byte(config), 0o600))
	var out bytes.Buffer
	app := &ucli.App{Name: "gnnsched", Writer: &out, ErrWriter: &out, Commands: []*ucli.Command{serveCommand()}}
	code := cli.RunContext(t.Context(), app, []string{
		"gnnsched", "serve", "--kubeconfig", path, "--port", "0", "--cert-dir", t.TempDir(), "--log-dir", t.TempDir(),
	})
	if code != exit.Kubeconfig || !strings.Contains(out.String(), "watch replicasets.apps") || !strings.Contains(out.String(), "serve --print-rbac") {
		t.Errorf("exit code %d: %s", code, out.String())
	}
}
