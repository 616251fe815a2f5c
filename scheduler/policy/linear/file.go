package linear

import (
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"gnnsched/internal/choice"
	"gnnsched/internal/files"
)

// tunedFiles holds tuned weights, one file for each objective. `gnnsched tune` writes such files.
//
//go:embed linear.json linear-energy.json linear-pack.json linear-usage.json linear-zones.json
var tunedFiles embed.FS

// file is the JSON form of a policy, with its weights by the names of their features.
type file struct {
	Name    string             `json:"name"`
	Weights map[string]float64 `json:"weights"`
	// Changes says by how much weights change with the state of the cluster, by the names of features and of State.
	Changes map[string]map[string]float64 `json:"changes,omitempty"`
	Tuning  *Tuning                       `json:"tuning,omitempty"`
}

// Tuning describes how weights were tuned, so that one command reproduces them.
type Tuning struct {
	Command     string   `json:"command"` // with all flags that have an effect
	Version     string   `json:"version"` // of the program
	Scenario    string   `json:"scenario"`
	Seed        uint64   `json:"seed"`        // of the drawn weights
	Generations int      `json:"generations"` // completed; fewer than requested if tuning was interrupted
	HeldOut     *HeldOut `json:"heldOut,omitempty"`
}

// HeldOut is the result of the weights on episodes of the scenario that tuning did not use.
type HeldOut struct {
	FirstSeed uint64 `json:"firstSeed"`
	Episodes  int    `json:"episodes"`
	// Means holds the means of the evaluation's metrics, by policy and metric. Less is better.
	Means map[string]map[string]float64 `json:"means"`
	// Worse holds, by metric, the p, adjusted for their number, of each difference in which the weights did worse than the baseline.
	Worse map[string]float64 `json:"worse,omitempty"`
	// Samples is the number of different workloads. If it is 1, a trace was played as recorded, and the
	// episodes are the one that the weights were tuned on.
	Samples int `json:"samples"`
}

// parse reads the JSON form of a policy. Weights of features that are not named are 0.
func parse(text []byte) (*Policy, error) {
	var f file
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&f); err != nil {
		return nil, fmt.Errorf("linear policy: %w", err)
	}
	if err := d.Decode(new(any)); err != io.EOF {
		return nil, errors.New("linear policy: something follows the object of the policy")
	}
	if len(f.Weights) == 0 {
		return nil, errors.New("linear policy: it has no weights; `gnnsched tune` writes such a file")
	}
	weights := make([]float64, len(Features))
	for name, w := range f.Weights {
		i := slices.Index(Features, name)
		if i < 0 {
			return nil, fmt.Errorf("linear policy %s: %w", f.Name, choice.Unknown("feature", name, Features))
		}
		weights[i] = w
	}
	l, err := New(f.Name, weights)
	if err != nil {
		return nil, err
	}
	if l.changes, err = parseChanges(f.Changes); err != nil {
		return nil, fmt.Errorf("linear policy %s: %w", f.Name, err)
	}
	l.Tuning = f.Tuning
	return l, nil
}

// Load reads a policy from its JSON file.
func Load(path string) (*Policy, error) {
	b, err := files.Read(path, files.Text)
	if err != nil {
		return nil, err
	}
	l, err := parse(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return l, nil
}

// MarshalJSON implements json.Marshaler. Load reads the result.
func (l *Policy) MarshalJSON() ([]byte, error) {
	return json.Marshal(file{l.name, l.ByName(), l.changes.byName(), l.Tuning})
}

// TunedNames returns the names that Tuned knows, in alphabetical order.
func TunedNames() []string {
	entries, err := tunedFiles.ReadDir(".")
	if err != nil {
		panic(err) // the files are part of the program
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = strings.TrimSuffix(e.Name(), ".json")
	}
	slices.Sort(names)
	return names
}

// Tuned returns one of the policies that the program carries: "linear" for balance, "linear-pack" for
// packing, "linear-zones" for packing with even zones, "linear-usage" for evenly used nodes, "linear-energy" for little energy
// and little throttled work. It panics for other names.
func Tuned(name string) *Policy {
	text, err := tunedFiles.ReadFile(name + ".json")
	if err != nil {
		panic(err) // callers know the names
	}
	return carried(text)
}

// ruleFile holds the weights of Rule.
//
//go:embed rule.json
var ruleFile []byte

// Rule returns the policy "rule" for balance: the weights of "linear", with changes that were learned by evolution strategies on whole
// episodes.
func Rule() *Policy { return carried(ruleFile) }

// carried reads a file that is part of the program.
func carried(text []byte) *Policy {
	l, err := parse(text)
	if err != nil {
		panic(err) // the file is part of the program
	}
	return l
}
