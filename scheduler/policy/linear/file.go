package linear

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
)

// tuned are the weights that package tune found, a file for each objective; `gnnsched tune`
// writes such files.
//
//go:embed linear.json linear-pack.json linear-zones.json
var tuned embed.FS

// file is how weights are kept: by the names of their features.
type file struct {
	Name    string             `json:"name"`
	Weights map[string]float64 `json:"weights"`
	Tuning  *Tuning            `json:"tuning,omitempty"`
}

// Tuning is how weights came about, kept beside them so that one command makes them anew.
type Tuning struct {
	Command     string   `json:"command"` // with every flag that counts
	Version     string   `json:"version"` // of the program
	Scenario    string   `json:"scenario"`
	Seed        uint64   `json:"seed"`        // of the weights drawn
	Generations int      `json:"generations"` // gone through; fewer than asked for where it was interrupted
	HeldOut     *HeldOut `json:"heldOut,omitempty"`
}

// HeldOut is how the weights did on the scenario's workloads of other seeds.
type HeldOut struct {
	FirstSeed uint64 `json:"firstSeed"`
	Episodes  int    `json:"episodes"`
	// Means are those of the evaluation's metrics (less is better), by policy and metric.
	Means map[string]map[string]float64 `json:"means"`
}

// parse reads weights by the names of their features; one that is not named is 0.
func parse(text []byte) (*Policy, error) {
	var f file
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&f); err != nil {
		return nil, fmt.Errorf("linear policy: %w", err)
	}
	weights := make([]float64, len(Features))
	for name, w := range f.Weights {
		i := slices.Index(Features, name)
		if i < 0 {
			return nil, fmt.Errorf("linear policy %s: there is no feature %q; there are %s", f.Name, name, strings.Join(Features, ", "))
		}
		weights[i] = w
	}
	l, err := New(f.Name, weights)
	if err != nil {
		return nil, err
	}
	l.Tuning = f.Tuning
	return l, nil
}

// Load reads the file of a linear policy.
func Load(path string) (*Policy, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	l, err := parse(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return l, nil
}

// MarshalJSON implements json.Marshaler; parse reads it.
func (l *Policy) MarshalJSON() ([]byte, error) {
	f := file{l.name, map[string]float64{}, l.Tuning}
	for i, w := range l.weights {
		f.Weights[Features[i]] = w
	}
	return json.Marshal(f)
}

// TunedNames are the names that Tuned knows, in alphabetical order.
func TunedNames() []string {
	entries, err := tuned.ReadDir(".")
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

// Tuned is the linear policy of a name whose weights the program carries: "linear" for balance,
// "linear-pack" for packing, "linear-zones" for packing with even zones.
func Tuned(name string) *Policy {
	text, err := tuned.ReadFile(name + ".json")
	if err != nil {
		panic(err) // a programmer's mistake
	}
	l, err := parse(text)
	if err != nil {
		panic(err) // the file is part of the program
	}
	return l
}
