package cli

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"

	"gnnsched/internal/exit"
	"gnnsched/internal/golden"
)

// A command with many flags shows the most important ones, and names the groups of the others.
func TestHelpShowsWhatPeopleNeedFirst(t *testing.T) {
	app := func() *cli.App {
		flags := []cli.Flag{&cli.StringFlag{Name: "first", Usage: "what people need"}}
		var names []string
		for i := range maxFlags {
			names = append(names, fmt.Sprintf("rare-%d", i))
			flags = append(flags, &cli.BoolFlag{Name: names[i], Usage: "what few need"})
		}
		few := []cli.Flag{&cli.BoolFlag{Name: "few", Usage: "one of few"}}
		return &cli.App{Name: "p", Commands: []*cli.Command{
			{Name: "many", Flags: Grouped(flags, Group{"rare things", strings.Join(names, " ")}),
				Description: "It runs.\n" + More + "Policies:\n   fgd"},
			{Name: "few", Flags: Grouped(few, Group{"few things", "few"}), Description: "It walks.\n" + More + "Gaits:\n   trot"},
		}}
	}
	for _, c := range []struct {
		args        string
		has, hasNot []string
	}{
		{"many --help", []string{"--first", "It runs.", "MORE, WITH --help-all:", "rare things   --rare-0 and 15 more",
			"policies      a list of all"}, []string{"what few need", "fgd"}},
		{"many --help-all", []string{"--first", "what few need", "rare things\n", "Policies:\n   fgd"}, []string{"WITH --help-all"}},
		{"few --help", []string{"one of few", "It walks.", "trot"}, []string{"WITH --help-all"}},
		{"few --help_all", []string{"one of few", "trot"}, nil},
	} {
		var out bytes.Buffer
		p := app()
		p.Writer = &out
		if code := RunContext(context.Background(), p, append([]string{"p"}, strings.Fields(c.args)...)); code != exit.OK {
			t.Errorf("%s: code %d", c.args, code)
		}
		for _, text := range c.has {
			if !strings.Contains(strings.ReplaceAll(out.String(), "\n      ", "\n   "), text) {
				t.Errorf("%s lacks %q:\n%s", c.args, text, out.String())
			}
		}
		for _, text := range c.hasNot {
			if strings.Contains(out.String(), text) {
				t.Errorf("%s has %q:\n%s", c.args, text, out.String())
			}
		}
	}
}

// The page of a program has its flags, its commands with theirs, and the exit codes.
func TestManual(t *testing.T) {
	var out bytes.Buffer
	program := &cli.App{
		Name: "weigh", Usage: "weigh things", Description: "It weighs.\n\nExamples:\n   weigh --kind heavy",
		Writer: &out, Flags: []cli.Flag{&cli.StringFlag{Name: "kind", Value: "light", Usage: "`KIND` of things"}},
		Commands: []*cli.Command{
			{Name: "all", Usage: "weigh all", Flags: []cli.Flag{&cli.BoolFlag{Name: "fast", Usage: "weigh fast"}}},
			{Name: "secret", Hidden: true}, Manual(),
		},
	}
	if code := RunContext(context.Background(), program, []string{"weigh", "man"}); code != exit.OK {
		t.Fatalf("code %d: %s", code, out.String())
	}
	golden.Check(t, "weigh.8", out.String())
	page, err := Reference(program)
	if err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "weigh.md", page)
}
