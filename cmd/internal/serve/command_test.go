package serve

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	ucli "github.com/urfave/cli/v2"

	"gnnsched/internal/cli"
	"gnnsched/internal/exit"
	"gnnsched/internal/refusal/refusaltest"
)

// A right that upstream's plugins need and the cluster refuses ends the server, which would never be ready.
func TestRefused(t *testing.T) {
	for _, request := range []string{"list services", "watch replicasets.apps"} {
		t.Run(request, func(t *testing.T) {
			s := refusaltest.New(t, request)
			var out bytes.Buffer
			app := &ucli.App{Name: "gnnsched", Writer: &out, ErrWriter: &out, Commands: []*ucli.Command{Command()}}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			code := cli.RunContext(ctx, app, []string{
				"gnnsched", "serve", "--kubeconfig", s.Kubeconfig(t), "--port", "0", "--cert-dir", t.TempDir(), "--log-dir", t.TempDir(),
			})
			if code != exit.Kubeconfig || !strings.Contains(out.String(), "does not let this user "+request+";") ||
				!strings.Contains(out.String(), "serve --print-rbac") {
				t.Errorf("exit code %d: %s", code, out.String())
			}
		})
	}
}
