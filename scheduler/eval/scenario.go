package eval

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"gnnsched/internal/choice"
	"gnnsched/scheduler/sim"
)

// Scenario describes the clusters and workloads that policies are compared on. In a file it is a YAML document with these fields and
// sim.Config's.
type Scenario struct {
	Name    string `json:"name"`
	About   string `json:"about"`             // one sentence without a full stop
	Optimum bool   `json:"optimum,omitempty"` // also find the best placement; for small scenarios
	sim.Config
	// ShapesFile is a shapes file, as runsim reads it; its shapes are added to the scenario's.
	ShapesFile string `json:"shapesFile,omitempty"`
	// NodesFile is a record of a cluster, or RECORD@TIME, whose nodes at that time are added to Pools.
	NodesFile  string      `json:"nodesFile,omitempty"`
	Thresholds []Threshold `json:"thresholds,omitempty"` // conditions that a comparison on it must meet
	// Notes describes the parts of NodesFile's record that are left out.
	Notes []string `json:"-"`
}

// Validate returns an error that names everything that is wrong with the scenario.
func (s Scenario) Validate() error {
	var errs []error
	if s.Name == "" || strings.Trim(s.Name, nameRunes) != "" || s.Name == all {
		errs = append(errs, fmt.Errorf("name: %q must consist of lower-case letters, digits and dashes, and must not be %q", s.Name, all))
	}
	if err := s.Objective.Validate(); len(s.Objective) == 0 {
		errs = append(errs, fmt.Errorf("objective: %w", err))
	}
	return errors.Join(append(errs, s.Config.Validate())...)
}

const nameRunes = "abcdefghijklmnopqrstuvwxyz0123456789-"

// judged returns the thresholds that a comparison on the scenario must meet: those given that
// concern it, and the scenario's own.
func (s Scenario) judged(given []Threshold) []Threshold {
	return slices.DeleteFunc(slices.Concat(given, s.Thresholds), func(t Threshold) bool { return !t.concerns(s.Name) })
}

// takers returns the names of all results in the scenario: the contenders and, if the scenario has
// it, the optimum.
func (s Scenario) takers(contenders []string) []string {
	if s.Optimum {
		return append(slices.Clone(contenders), Optimum)
	}
	return contenders
}

// all is the pattern that selects every built-in scenario.
const all = "all"

// Default names the scenarios of `gnnsched eval` without --scenario. They take seconds.
var Default = []string{"aaml", "mixed"}

//go:embed scenarios/*.yaml
var embedded embed.FS

// builtIn reads the built-in scenarios, one from each file, in the order of their names.
var builtIn = sync.OnceValue(func() []Scenario {
	var out []Scenario
	for _, name := range names() {
		data, err := Source(name)
		if err != nil {
			panic(err) // the files are part of the program
		}
		s, err := Read(name+".yaml", data)
		if err != nil || len(s) != 1 || s[0].Name != name {
			panic(fmt.Sprintf("eval: the file of %s must hold that scenario and no other: %v", name, err))
		}
		out = append(out, s[0])
	}
	return out
})

// names returns the names of the built-in scenarios in alphabetical order.
func names() []string {
	entries, err := embedded.ReadDir("scenarios")
	if err != nil {
		panic(err) // the files are part of the program
	}
	out := make([]string, len(entries))
	for i, e := range entries {
		out[i] = strings.TrimSuffix(e.Name(), ".yaml")
	}
	return out
}

// Scenarios returns the built-in scenarios. Training and tuning run on the family scenarios and
// choose the best network on others. Their seeds are large numbers, so an evaluation with small
// seeds never repeats an episode of theirs.
func Scenarios() []Scenario { return slices.Clone(builtIn()) }

// Find returns the built-in scenario with a name. The error lists the names that exist.
func Find(name string) (Scenario, error) {
	for _, s := range builtIn() {
		if s.Name == name {
			return s, nil
		}
	}
	return Scenario{}, choice.Unknown("scenario", name, names())
}

// selectScenarios returns the built-in scenarios whose names match a pattern of path.Match, such as
// "hetero*". The pattern "all" selects every scenario. No match is an error.
func selectScenarios(pattern string) ([]Scenario, error) {
	if pattern == all {
		return Scenarios(), nil
	}
	if !strings.ContainsAny(pattern, `*?[\`) {
		s, err := Find(pattern)
		return []Scenario{s}, err
	}
	var out []Scenario
	for _, s := range builtIn() {
		matches, err := path.Match(pattern, s.Name)
		if err != nil {
			return nil, fmt.Errorf("%q is not a pattern: %w", pattern, err)
		}
		if matches {
			out = append(out, s)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("no scenario matches %q; there are %s", pattern, strings.Join(names(), ", "))
	}
	return out, nil
}

// Source returns the YAML file of the built-in scenario with a name, to copy and change.
func Source(name string) ([]byte, error) {
	data, err := embedded.ReadFile(path.Join("scenarios", name+".yaml"))
	if err != nil {
		return nil, choice.Unknown("scenario", name, names())
	}
	return data, nil
}

// Hash identifies what is played: 16 hexadecimal digits of the configuration and the contents of its files. Outcomes of scenarios with
// different hashes cannot be compared. It is empty for a scenario whose nodes or pods are those of a program.
func (s Scenario) Hash() (string, error) {
	c := s.Config
	if c.Given != nil || c.OpenB != nil && (len(c.OpenB.Nodes) > 0 || len(c.OpenB.Pods) > 0) {
		return "", nil
	}
	h := sha256.New()
	if err := hashFiles(h, c.Files()...); err != nil {
		return "", err
	}
	text, err := json.Marshal(struct {
		sim.Config
		Objective string `json:"objective"`
	}{c, s.Objective.Name()})
	if err != nil {
		return "", err
	}
	h.Write(text)
	return hex.EncodeToString(h.Sum(nil)[:8]), nil
}

// hashFiles writes the contents of files and of the files in folders, and replaces the paths by what their place does not change.
func hashFiles(to io.Writer, paths ...*string) error {
	for _, p := range paths {
		path, moment, _ := strings.Cut(*p, "@")
		*p = moment
		err := filepath.WalkDir(path, func(file string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			f, err := os.Open(file)
			if err != nil {
				return err
			}
			defer f.Close()
			within, err := filepath.Rel(path, file)
			if err == nil {
				fmt.Fprintf(to, "%s\x00", within)
				_, err = io.Copy(to, f)
			}
			return err
		})
		if err != nil {
			return fmt.Errorf("hash of the scenario: %w", err)
		}
	}
	return nil
}
