package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	ucli "github.com/urfave/cli/v2"
)

// codeSpan matches a code span of Markdown.
var codeSpan = regexp.MustCompile("`([^`]+)`")

// flagOfLine matches a long flag of a command line.
var flagOfLine = regexp.MustCompile(`^--([a-z][a-z0-9_-]*)`)

// measuredAt matches the row of a figure with the commit and the day on which it was measured.
var measuredAt = regexp.MustCompile(`^\|.*\| [0-9a-f]{8}, \d{4}-\d{2}-\d{2} \|`)

// TestFlagsInTheDocs checks that every flag of a command line in the docs exists. Command lines are
// lines of code and code spans that begin with one of this program's commands.
func TestFlagsInTheDocs(t *testing.T) {
	pages := []string{"../../README.md", "../../CONTRIBUTING.md"}
	err := filepath.WalkDir("../../docs", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err == nil && d.IsDir() && d.Name() == "adr": // they keep the commands of their time
			return filepath.SkipDir
		case strings.HasSuffix(path, ".md"):
			pages = append(pages, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	all := commands()
	checked := 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range codeOf(string(text)) {
			command, known := commandOf(all, line)
			if !known {
				continue
			}
			for _, word := range strings.Fields(line) {
				if word == "#" || word == "|" || word == ">" {
					break // a comment, or output redirection of the shell
				}
				flag := flagOfLine.FindStringSubmatch(word)
				if flag == nil {
					continue
				}
				checked++
				if !hasFlag(command, strings.ReplaceAll(flag[1], "_", "-")) {
					t.Errorf("%s: %s has no flag --%s:\n%s", filepath.Base(page), command.Name, flag[1], line)
				}
			}
		}
	}
	if checked < 100 {
		t.Errorf("the docs have only %d flags", checked)
	}
}

// codeOf returns the code spans of a page and its lines of code, without a prompt and with continued
// lines joined.
func codeOf(page string) (out []string) {
	page = strings.ReplaceAll(page, "\\\n", " ")
	var prose strings.Builder
	fenced := false
	for line := range strings.Lines(page) {
		code, indented := strings.CutPrefix(line, "    ")
		switch {
		case strings.HasPrefix(line, "```"):
			fenced = !fenced
		case measuredAt.MatchString(line): // a figure keeps the command of its commit
		case fenced || indented:
			out = append(out, strings.TrimPrefix(strings.TrimSpace(code), "$ "))
		default:
			prose.WriteString(line)
		}
	}
	for _, span := range codeSpan.FindAllStringSubmatch(prose.String(), -1) {
		out = append(out, strings.Join(strings.Fields(span[1]), " "))
	}
	return out
}

// commandOf returns the one of all commands, or its subcommand, that a command line runs.
func commandOf(all []*ucli.Command, line string) (*ucli.Command, bool) {
	words := strings.Fields(line)
	switch {
	case len(words) == 0 || words[0] == "eval": // the shell's
		return nil, false
	case words[0] == "gnnsched":
		words = words[1:]
	}
	var found *ucli.Command
	for list := all; len(words) > 0; list, words = found.Subcommands, words[1:] {
		at := slices.IndexFunc(list, func(c *ucli.Command) bool { return c.Name == words[0] })
		if at < 0 {
			break
		}
		found = list[at]
	}
	return found, found != nil
}

// hasFlag tells whether the command has the flag, hidden or not.
func hasFlag(c *ucli.Command, name string) bool {
	return name == "help" || name == "help-all" || name == "version" ||
		slices.ContainsFunc(c.Flags, func(f ucli.Flag) bool { return slices.Contains(f.Names(), name) })
}
