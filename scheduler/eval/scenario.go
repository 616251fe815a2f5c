package eval

import (
	"embed"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"

	"gnnsched/scheduler/sim"
)

// Scenario is a kind of cluster and workload to compare policies on. In a file it is a YAML
// document with these fields beside those of sim.Config.
type Scenario struct {
	Name    string `json:"name"`
	About   string `json:"about"`             // in a sentence
	Optimum bool   `json:"optimum,omitempty"` // small enough to also find the best that there is
	sim.Config
	Thresholds []Threshold `json:"thresholds,omitempty"` // what has to hold in it
}

// Validate says everything that is wrong with the scenario.
func (s Scenario) Validate() error {
	var errs []error
	if s.Name == "" || strings.Trim(s.Name, nameRunes) != "" || s.Name == All {
		errs = append(errs, fmt.Errorf("name: %q is not made of lower-case letters, digits and dashes, or means every scenario", s.Name))
	}
	return errors.Join(append(errs, s.Config.Validate())...)
}

const nameRunes = "abcdefghijklmnopqrstuvwxyz0123456789-"

// Judged are the thresholds for the scenario: those of the given ones that concern it, and
// its own.
func (s Scenario) Judged(given []Threshold) []Threshold {
	var out []Threshold
	for _, t := range slices.Concat(given, s.Thresholds) {
		if t.Concerns(s.Name) {
			out = append(out, t)
		}
	}
	return out
}

// Takers are the names that the results in the scenario have, for contenders of these names.
func (s Scenario) Takers(contenders []string) []string {
	if s.Optimum {
		return append(slices.Clone(contenders), Optimum)
	}
	return contenders
}

// All is the name that means every built-in scenario.
const All = "all"

// Default are the names of the scenarios that are compared on where none is named: those of
// a moment.
var Default = []string{"aaml", "mixed"}

//go:embed scenarios/*.yaml
var files embed.FS

// builtIn reads the scenarios' files, which hold one each, in the order of their names.
var builtIn = sync.OnceValue(func() []Scenario {
	var out []Scenario
	for _, name := range Names() {
		data, err := Source(name)
		if err != nil {
			panic(err) // the files are part of the program
		}
		s, err := Read(name+".yaml", data)
		if err != nil || len(s) != 1 || s[0].Name != name {
			panic(fmt.Sprintf("eval: the file of %s does not hold it alone: %v", name, err))
		}
		out = append(out, s[0])
	}
	return out
})

// Names are the names of the built-in scenarios, in alphabetical order.
func Names() []string {
	entries, err := files.ReadDir("scenarios")
	if err != nil {
		panic(err) // the files are part of the program
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = strings.TrimSuffix(e.Name(), ".yaml")
	}
	return names
}

// Scenarios are the built-in ones. Training and tuning use those that are called family, and
// others to choose the best network by, always with other seeds than an evaluation's (those of
// an evaluation are small numbers).
func Scenarios() []Scenario { return slices.Clone(builtIn()) }

// Find returns the built-in scenario of a name. The error lists those that there are.
func Find(name string) (Scenario, error) {
	for _, s := range builtIn() {
		if s.Name == name {
			return s, nil
		}
	}
	return Scenario{}, unknown("no scenario is called %q", name)
}

// Select returns the built-in scenarios whose names match a pattern as of path.Match, such as
// "hetero*", or every one for All.
func Select(pattern string) ([]Scenario, error) {
	if pattern == All {
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
			return nil, fmt.Errorf("%q is no pattern: %w", pattern, err)
		}
		if matches {
			out = append(out, s)
		}
	}
	if len(out) == 0 {
		return nil, unknown("no scenario matches %q", pattern)
	}
	return out, nil
}

// Source is the file of the built-in scenario of a name, to be copied and changed.
func Source(name string) ([]byte, error) {
	data, err := files.ReadFile(path.Join("scenarios", name+".yaml"))
	if err != nil {
		return nil, unknown("no scenario is called %q", name)
	}
	return data, nil
}

func unknown(format, name string) error {
	return fmt.Errorf(format+"; there are %s", name, strings.Join(Names(), ", "))
}
