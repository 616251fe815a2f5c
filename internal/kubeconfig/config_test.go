package kubeconfig

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gnnsched/internal/exit"
	"gnnsched/internal/fatal"
)

const deadServer = `apiVersion: v1
kind: Config
current-context: sim
clusters: [{name: sim, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: admin, user: {token: x}}]
contexts: [{name: sim, context: {cluster: sim, user: admin}}]
`

func write(t *testing.T, content string) string {
	t.Helper()
	p := filepath.Join(t.TempDir(), "kubeconfig")
	fatal.If(t, os.WriteFile(p, []byte(content), 0o600))
	return p
}

func TestErrorsCarryTheirCode(t *testing.T) {
	t.Setenv("KUBECONFIG", "")
	t.Setenv("HOME", t.TempDir())
	t.Setenv("XDG_DATA_HOME", t.TempDir())
	good := write(t, deadServer)
	empty := write(t, `{"apiVersion":"v1","kind":"Config"}`)
	for _, c := range []struct {
		name   string
		target Target
		code   int
		want   string
	}{
		{"no kubeconfig at all", Target{}, exit.Kubeconfig,
			"no kubeconfig: none in $KUBECONFIG, from the simulated cluster, or in ~/.kube/config"},
		{"empty file", Target{Kubeconfig: empty}, exit.Kubeconfig, "the kubeconfig " + empty + " names no cluster"},
		{"missing file", Target{Kubeconfig: "/does/not/exist"}, exit.Kubeconfig, "/does/not/exist"},
		{"malformed file", Target{Kubeconfig: write(t, "{{{")}, exit.Kubeconfig, "read the kubeconfig"},
		{"wrong context", Target{Kubeconfig: good, Context: "other"}, exit.Kubeconfig, "other"},
		{"no server", Target{Kubeconfig: good}, exit.Unreachable, "127.0.0.1:1"},
	} {
		_, _, err := c.target.Connect(context.Background())
		if exit.Code(err) != c.code || err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: code %d (%v), want %d and %q", c.name, exit.Code(err), err, c.code, c.want)
		}
	}
}

func TestSimulatedClusterIsTheDefault(t *testing.T) {
	t.Setenv("KUBECONFIG", "")
	t.Setenv("HOME", t.TempDir())
	t.Setenv("XDG_DATA_HOME", t.TempDir())
	p := SimulatedKubeconfig(SimulatedDir())
	fatal.If(t, os.MkdirAll(filepath.Dir(p), 0o700))
	fatal.If(t, os.WriteFile(p, []byte(deadServer), 0o600))
	c, err := Target{}.REST()
	if err != nil || c.Host != "https://127.0.0.1:1" {
		t.Fatalf("got %v, %v; want the simulated cluster", c, err)
	}
	other := write(t, `{"apiVersion":"v1","kind":"Config","current-context":"o","clusters":[{"name":"o","cluster":{"server":"https://127.0.0.1:2"}}],"users":[{"name":"o","user":{}}],"contexts":[{"name":"o","context":{"cluster":"o","user":"o"}}]}`)
	t.Setenv("KUBECONFIG", other)
	if c, err = (Target{}).REST(); err != nil || c.Host != "https://127.0.0.1:2" {
		t.Fatalf("KUBECONFIG must win: got %v, %v", c, err)
	}
}

// kwokcluster down --purge leaves a shell with a $KUBECONFIG that is gone. No other cluster steps in.
func TestKubeconfigVariableOfAClusterThatIsGone(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("XDG_DATA_HOME", t.TempDir())
	fatal.If(t, os.MkdirAll(filepath.Join(home, ".kube"), 0o700))
	fatal.If(t, os.WriteFile(filepath.Join(home, ".kube", "config"), []byte(deadServer), 0o600))
	for env, want := range map[string]string{
		filepath.Join(home, "gone"):                     "$KUBECONFIG is " + filepath.Join(home, "gone") + ", which does not exist",
		write(t, `{"apiVersion":"v1","kind":"Config"}`): "which names no cluster",
	} {
		t.Setenv("KUBECONFIG", env)
		if _, err := (Target{}).REST(); exit.Code(err) != exit.Kubeconfig || !strings.Contains(err.Error(), want) {
			t.Errorf("KUBECONFIG=%s: code %d, %v; want %q", env, exit.Code(err), err, want)
		}
	}
}

func TestName(t *testing.T) {
	t.Setenv("KUBECONFIG", "")
	good := write(t, deadServer)
	for _, c := range []struct {
		target Target
		want   string
	}{
		{Target{Kubeconfig: good}, "sim"},
		{Target{Kubeconfig: good, Context: "named"}, "named"},
		{Target{Kubeconfig: "/does/not/exist"}, ""},
	} {
		if got := c.target.Name(); got != c.want {
			t.Errorf("%+v: %q, want %q", c.target, got, c.want)
		}
	}
}
