package partition

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"math"
	"sync"

	"gnnsched/internal/cluster/mig"
)

// Values is a learned cost of a GPU's state: Values[p][s] is the part that pods of profile p have in the cost of state s. The cost under
// a mix is the sum over profiles of their shares times their parts, so one table serves all mixes. `gnnsched tune mig` learns it.
type Values [mig.Count][states]float64

// potential returns the cost of states under a mix.
func (v *Values) potential(m Mix) func(mig.Slices) float64 {
	return func(used mig.Slices) (sum float64) {
		for _, p := range mig.Profiles() {
			sum += m[p] * v[p][used]
		}
		return sum
	}
}

// Weighted returns the values that are a weighted sum of mig.Features.
func Weighted(weights []float64) *Values {
	var v Values
	for _, p := range mig.Profiles() {
		for s := range states {
			for k, f := range mig.Features {
				v[p][s] += weights[k] * f.Of(mig.Slices(s), p)
			}
		}
	}
	return &v
}

// Policy returns the policy of the values under a mix.
func (v *Values) Policy(m Mix) *Policy { return newPolicy("mig:value", growth(v.potential(m)), nil) }

//go:embed values.json
var shipped []byte

// learned returns the values that the program carries.
var learned = sync.OnceValue(func() *Values {
	v, err := parse(shipped)
	if err != nil {
		panic(err) // the file is part of the program
	}
	return v
})

// format names the layout of a file of values.
const format = "gnnsched mig values 1"

type file struct {
	Format  string      `json:"format"`
	Command string      `json:"command"` // that repeats the training
	Values  [][]float64 `json:"values"`  // a row for each profile
}

// parse reads values that Marshal wrote.
func parse(b []byte) (*Values, error) {
	var f file
	if err := json.Unmarshal(b, &f); err != nil {
		return nil, fmt.Errorf("values of MIG states: %w", err)
	}
	if f.Format != format {
		return nil, fmt.Errorf("values of MIG states: format is %q, want %q", f.Format, format)
	}
	var v Values
	if len(f.Values) != len(mig.Profiles()) {
		return nil, fmt.Errorf("values of MIG states: %d rows, want one for each of %d profiles", len(f.Values), len(mig.Profiles()))
	}
	for i, p := range mig.Profiles() {
		if len(f.Values[i]) != states {
			return nil, fmt.Errorf("values of MIG states: row %d has %d values, want %d", i, len(f.Values[i]), states)
		}
		for s, x := range f.Values[i] {
			if math.Abs(x) > 1e6 {
				return nil, fmt.Errorf("values of MIG states: value %d of row %d is %v, want at most 1e6", s, i, x)
			}
			v[p][s] = x
		}
	}
	return &v, nil
}

// Marshal returns the file of the values, rounded to four digits, with the command that repeats the training.
func (v *Values) Marshal(command string) ([]byte, error) {
	f := file{Format: format, Command: command}
	for _, p := range mig.Profiles() {
		row := make([]float64, states)
		for s := range row {
			row[s] = math.Round(v[p][s]*1e4) / 1e4
		}
		f.Values = append(f.Values, row)
	}
	b, err := json.Marshal(f)
	if err != nil {
		return nil, fmt.Errorf("values of MIG states: %w", err)
	}
	return append(b, '\n'), nil
}
