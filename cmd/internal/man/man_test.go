package man

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	ucli "github.com/urfave/cli/v2"

	"gnnsched/internal/exit"
	"gnnsched/internal/golden"
)

func program() *ucli.App {
	return &ucli.App{
		Name: "weigh", Usage: "weigh *things*", UsageText: "weigh [options] FILE",
		Description: "It reads a_file of <things>.\nIt takes:\n   light   up to 1 kg\n   heavy   the rest\nExamples:\n   weigh --kind heavy " +
			"things.txt   # one",
		Flags: []ucli.Flag{&ucli.StringFlag{Name: "kind", Value: "light", Usage: "`KIND` of things"}},
	}
}

func TestPage(t *testing.T) {
	text, err := page(program())
	if err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "weigh.8", text)
}

func TestWrite(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "man", "man8")
	commands := []*ucli.Command{
		{Name: "rungnn", Usage: "run it", Description: "It runs.", Flags: []ucli.Flag{&ucli.BoolFlag{Name: "fast", Usage: "run fast"}}},
		{Name: "eval", Usage: "compare", Subcommands: []*ucli.Command{{Name: "openb", Usage: "compare on openb"}}},
		{Name: "secret", Hidden: true},
	}
	all := &ucli.App{Name: "gnnsched", Usage: "schedule"}
	if err := write(all, commands, "v1", dir); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, f := range files {
		page, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&text, "== %s\n%s", filepath.Base(f), page)
	}
	golden.Check(t, "pages.txt", text.String())
	alone := &ucli.App{
		Name: "train", Usage: "train it", Description: "It trains.\n\nExamples:\n   train --steps 5",
		Flags: []ucli.Flag{&ucli.IntFlag{Name: "steps", Usage: "`NUMBER` of steps"}, ucli.HelpFlag},
	}
	dir = t.TempDir()
	if err := write(alone, commands[1:], "v1", dir); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(dir, "train.8"))
	if err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "train.8", string(page))
	if err := write(all, commands, "v1", files[0]); exit.Code(err) != exit.Usage {
		t.Errorf("in place of a directory there is a file: %v", err)
	}
}
