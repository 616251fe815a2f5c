package cli_test

import (
	"maps"
	"testing"
	"time"

	ucli "github.com/urfave/cli/v2"

	"gnnsched/internal/cli"
)

// The manifest has the flags that were set, once each, as one gives them.
func TestManifest(t *testing.T) {
	var got map[string]string
	app := &ucli.App{
		Flags: []ucli.Flag{
			&ucli.StringSliceFlag{Name: "profile", Aliases: []string{"p"}}, &ucli.Float64SliceFlag{Name: "load"},
			&ucli.TimestampFlag{Name: "from", Layout: time.RFC3339},
			&ucli.IntFlag{Name: "seeds"}, &ucli.StringFlag{Name: "unset", Value: "x"},
		},
		Action: func(c *ucli.Context) error { got = cli.Manifest(c, "test").Settings; return nil },
	}
	if err := app.Run([]string{"p", "-p", "a", "-p", "b", "--load", "0.5", "--load", "1", "--from", "2026-03-01T01:00:00+01:00", "--seeds",
		"3"}); err != nil {
		t.Fatal(err)
	}
	if want := map[string]string{"profile": "a,b", "load": "0.5,1", "from": "2026-03-01T00:00:00Z", "seeds": "3"}; !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
