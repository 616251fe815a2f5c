package report

import (
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	ucli "github.com/urfave/cli/v2"
)

// The page has the flags that were set, once each, as one gives them, without those of workers, and says why a run ended early.
func TestBegin(t *testing.T) {
	out := filepath.Join(t.TempDir(), "page.html")
	var got Run
	app := &ucli.App{ErrWriter: io.Discard, Commands: []*ucli.Command{{
		Name: "eval",
		Flags: []ucli.Flag{
			Flag(), &ucli.StringSliceFlag{Name: "profile", Aliases: []string{"p"}}, &ucli.BoolFlag{Name: "all"},
			&ucli.TimestampFlag{Name: "from", Layout: time.RFC3339}, &ucli.StringFlag{Name: "workers"},
			&ucli.IntFlag{Name: "seeds"}, &ucli.StringFlag{Name: "unset", Value: "x"},
		},
		Action: func(c *ucli.Context) (err error) {
			if got, err = Begin(c, "eval", nil, "workers"); err != nil {
				return err
			}
			return got.Write(c, errors.New("stop"))
		},
	}}}
	if err := app.Run([]string{"p", "eval", "-p", "a", "-p", "b c", "--all", "--from", "2026-03-01T01:00:00+01:00", "--workers",
		"nats://u:secret@host", "--html", out, "r"}); err != nil {
		t.Fatal(err)
	}
	if want := map[string]string{"profile": "a,b c", "all": "true", "from": "2026-03-01T00:00:00Z", "html": out}; !maps.Equal(got.Settings, want) {
		t.Errorf("%v, want %v", got.Settings, want)
	}
	if want := "gnnsched eval --all --from=2026-03-01T00:00:00Z --html=" + out + " '--profile=a,b c' r"; got.Command != want {
		t.Errorf("%s, want %s", got.Command, want)
	}
	page, err := os.ReadFile(out)
	if err != nil || !strings.Contains(string(page), "ended before its time: stop") || strings.Contains(string(page), "secret") {
		t.Errorf("%v, or the page lacks why the run ended, or has a secret", err)
	}
}
