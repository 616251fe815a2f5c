package cli

import (
	"bytes"
	"context"
	"testing"

	"github.com/urfave/cli/v2"

	"gnnsched/internal/exit"
	"gnnsched/internal/golden"
)

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
