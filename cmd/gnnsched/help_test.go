package main

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	ucli "github.com/urfave/cli/v2"

	"gnnsched/cmd/internal/trial"
	"gnnsched/internal/cli"
	"gnnsched/internal/exit"
	"gnnsched/internal/fatal"
)

// The reference has the flags as the commands have them.
func TestFlagsPage(t *testing.T) {
	page := fatal.Value(cli.Reference(app("gnnsched")))(t)
	fatal.Golden(t, "../../../docs/reference/flags-gnnsched.md", page)
}

// A command with many flags shows first what people need first, in few words.
func TestHelpIsShort(t *testing.T) {
	for _, c := range slices.Concat(commands(), trial.Eval().Subcommands) {
		flags := cli.VisibleFlags(c.Flags)
		first := len(strings.Fields(cli.Groups(flags)[0].Flags))
		if len(flags) > 16 && first > 14 {
			t.Errorf("the help of %s begins with %d of %d flags", c.Name, first, len(flags))
		}
		for _, f := range flags {
			if d, ok := f.(ucli.DocGenerationFlag); ok && len(strings.Fields(d.GetUsage())) > 25 {
				t.Errorf("%s: the help of --%s has over 25 words: %s", c.Name, f.Names()[0], d.GetUsage())
			}
		}
	}
	_, help, _ := run(t, "rungnn", "--help")
	if words := len(strings.Fields(help)); words > 450 {
		t.Errorf("rungnn --help has %d words", words)
	}
	_, all, _ := run(t, "rungnn", "--help-all")
	for _, f := range cli.VisibleFlags(commands()[0].Flags) {
		if name := "--" + f.Names()[0] + " "; !strings.Contains(all, name) {
			t.Errorf("rungnn --help-all lacks %s", name)
		}
	}
}

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
	fatal.If(t, err)
	all := commands()
	checked := 0
	for _, page := range pages {
		text := fatal.Value(os.ReadFile(page))(t)
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

// The script for bash asks the program and offers the words that fit.
func TestCompletionInBash(t *testing.T) {
	code, script, errs := run(t, "gnnsched", "completion", "bash")
	if code != exit.OK {
		t.Fatalf("code %d, %s", code, errs)
	}
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("no bash")
	}
	const words = "--policy\n--port\n--print-config\n" // as the program answers
	for typed, want := range map[string][]string{"--po": {"--policy", "--port"}, "--pri": {"--print-config"}} {
		test := script + "rungnn() { printf '%s\\n' \"$ANSWER\"; }\nCOMP_WORDS=(rungnn " + typed +
			"); COMP_CWORD=1; _gnnsched; echo ${COMPREPLY[@]}\n"
		c := exec.Command(bash, "-c", test)
		c.Env = []string{"ANSWER=" + words}
		out, err := c.CombinedOutput()
		if err != nil || strings.Join(strings.Fields(string(out)), " ") != strings.Join(want, " ") {
			t.Errorf("%s: %v, %q, want %q", typed, err, out, want)
		}
	}
}

// The shells that are installed can parse their scripts.
func TestCompletionIsValid(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish"} {
		path, err := exec.LookPath(shell)
		if err != nil {
			t.Logf("no %s", shell)
			continue
		}
		_, script, _ := run(t, "gnnsched", "completion", shell)
		if out, err := exec.Command(path, "-n", write(t, "script", []byte(script))).CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("%s: %v, %s", shell, err, out)
		}
	}
}

// Every shell gets a script that names every program.
func TestCompletion(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish"} {
		code, script, errs := run(t, "gnnsched", "completion", shell)
		if code != exit.OK {
			t.Fatalf("%s: code %d, %s", shell, code, errs)
		}
		for _, c := range append(runCommands(), ktopCommand(), runsimCommand(), cleanclusterCommand()) {
			if !strings.Contains(script, c.Name) {
				t.Errorf("%s: %s is missing", shell, c.Name)
			}
		}
		for _, other := range []string{"gnnsched", "kwokcluster", "gnntrain"} {
			if !strings.Contains(script, other) {
				t.Errorf("%s: %s is missing", shell, other)
			}
		}
	}
	for _, args := range [][]string{{}, {"csh"}, {"bash", "zsh"}} {
		if code, out, _ := run(t, append([]string{"gnnsched", "completion"}, args...)...); code != exit.Usage || out != "" {
			t.Errorf("%q: code %d, %q", args, code, out)
		}
	}
}

// The version names the Kubernetes version.
func TestVersion(t *testing.T) {
	for _, name := range []string{"gnnsched", "rungnn"} {
		if code, out, _ := run(t, name, "--version"); code != exit.OK || !strings.Contains(out, ", Kubernetes v") {
			t.Errorf("%s: code %d, %q", name, code, out)
		}
	}
}

// The help lists every policy and family of policies.
func TestPolicyHelpListsAll(t *testing.T) {
	_, out, _ := run(t, "rungnn", "--help-all")
	for _, name := range []string{"best-fit", "fgd", "gpu-best-fit", "gpu-packing", "gpu-clustering", "gpu-dot-product", "greedy:OBJECTIVE",
		"linear:FILE"} {
		if !strings.Contains(out, name) {
			t.Errorf("%s is missing in %s", name, out)
		}
	}
}

// The help does not add the flag type's default to a default that depends on the scenario.
func TestResampleHelpHasOneDefault(t *testing.T) {
	for _, command := range [][]string{{"eval"}, {"tune", "linear"}} {
		if _, out, _ := run(t, append(append([]string{"gnnsched"}, command...), "--help-all")...); !strings.Contains(out, "else true)\n") {
			t.Errorf("%s: %s", command, out)
		}
	}
}

// With the tag service the program compiles, and is without what only the laboratory needs.
func TestService(t *testing.T) {
	tags := "service" // plus this run's own tags, which -tags replaces
	for _, flag := range strings.Fields(os.Getenv("GOFLAGS")) {
		if more, is := strings.CutPrefix(flag, "-tags="); is {
			tags += "," + more
		}
	}
	out, err := exec.Command("go", "list", "-deps", "-export", "-tags", tags, ".").Output()
	if err != nil {
		t.Fatal(err, string(err.(*exec.ExitError).Stderr))
	}
	deps := strings.Fields(string(out))
	for name, want := range map[string]bool{"gnnsched/scheduler/server": true, "gnnsched/cmd/internal/top": true, "gonum.org/v1/plot": false,
		"helm.sh/helm/v3/pkg/engine": false} {
		if slices.Contains(deps, name) != want {
			t.Errorf("it imports %s: %v, want %v", name, !want, want)
		}
	}
}
