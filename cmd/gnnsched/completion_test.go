package main

import (
	"os/exec"
	"strings"
	"testing"

	"gnnsched/internal/exit"
)

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
