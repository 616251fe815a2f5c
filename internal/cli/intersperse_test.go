package cli

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/urfave/cli/v2"

	"gnnsched/internal/exit"
)

// Flags may stand before and after a command's arguments.
func TestFlagsMayFollowArguments(t *testing.T) {
	for line, want := range map[string]string{
		"p do file":                        "file",
		"p do --name x file":               "file name=x",
		"p do file --name x":               "file name=x",
		"p do file --name=x other":         "file other name=x",
		"p do file -n x --quick other":     "file other name=x quick",
		"p do file --quick -":              "file - quick",
		"p do --quick -- file --name x":    "file --name x quick",
		"p do file -- --name x":            "file --name x",
		"p do one --name -1 two":           "one two name=-1",
		"p group do file --quick --name x": "file name=x quick",
	} {
		var got string
		do := &cli.Command{
			Name: "do", Flags: []cli.Flag{&cli.StringFlag{Name: "name", Aliases: []string{"n"}}, &cli.BoolFlag{Name: "quick"}},
			Action: func(c *cli.Context) error {
				got = strings.Join(c.Args().Slice(), " ")
				if c.IsSet("name") {
					got += " name=" + c.String("name")
				}
				if c.Bool("quick") {
					got += " quick"
				}
				return nil
			},
		}
		app := &cli.App{Name: "p", Commands: []*cli.Command{do, {Name: "group", Subcommands: []*cli.Command{do}}}, ErrWriter: &strings.Builder{}}
		if code := RunContext(context.Background(), app, strings.Fields(line)); code != exit.OK {
			t.Errorf("%s: code %d, %s", line, code, app.ErrWriter)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: %s", line, d)
		}
	}
}

// An unknown flag behind an argument is an error, and completion sees the original line.
func TestFlagsFirstLeavesTheRest(t *testing.T) {
	app := &cli.App{Name: "p", Flags: []cli.Flag{&cli.StringFlag{Name: "name"}}, ErrWriter: &strings.Builder{}}
	if code := RunContext(context.Background(), app, []string{"p", "file", "--nmae", "x"}); code != exit.Usage {
		t.Errorf("code %d", code)
	}
	typed := []string{"p", "file", "--na", "--generate-bash-completion"}
	if d := cmp.Diff(typed, flagsFirst(app, typed)); d != "" {
		t.Error(d)
	}
}
