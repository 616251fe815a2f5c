package server

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gnnsched/internal/fatal"
	"gnnsched/internal/kubeconfig"
	"gnnsched/scheduler/plugin/userconfig"
)

// WriteTemporary puts no credentials into a directory, where a killed process would leave them. The
// directory for temporary files need not even be there.
func TestWriteTemporaryLeavesNoCredentials(t *testing.T) {
	const token = "5f0c7a9e-the-token"
	source := file(t, `{"apiVersion":"v1","kind":"Config","current-context":"c","clusters":[{"name":"c","cluster":{"server":"https://127.0.0.1:1"}}],`+
		`"users":[{"name":"c","user":{"token":"`+token+`"}}],"contexts":[{"name":"c","context":{"cluster":"c","user":"c"}}]}`)
	t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "none"))
	path, remove, err := WriteTemporary(Config{Profiles: []Profile{{SchedulerName: "a", Args: Args{Policy: "best-fit"}}}, QPS: 1},
		kubeconfig.Target{Kubeconfig: source})
	fatal.If(t, err)
	defer remove()
	f, err := userconfig.Read(path)
	fatal.If(t, err)
	b, err := os.ReadFile(f.Kubeconfig())
	if err != nil || !strings.Contains(string(b), token) {
		t.Errorf("the kubeconfig has not the token: %v\n%s", err, b)
	}
}
