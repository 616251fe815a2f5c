package tabular

import (
	"encoding/json"
	"fmt"
	"math"

	"gnnsched/internal/cluster"
	"gnnsched/internal/files"
	"gnnsched/scheduler/policy"
)

// Agent is the policy that scores a candidate by its value in the table. It keeps no state between
// decisions, so several goroutines may use one agent. Candidates in one cell tie; the caller should
// break ties at random.
type Agent struct {
	config Config
	values []float64 // by cell
}

var _ policy.Policy = &Agent{}

// New returns an agent whose values are all zero.
func New(c Config) (*Agent, error) {
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("tabular agent: %w", err)
	}
	return &Agent{c, make([]float64, c.cells())}, nil
}

// Values returns the table: the value of each cell (see View.Cell). The caller may change the values
// while no other goroutine uses the agent.
func (a *Agent) Values() []float64 { return a.values }

// Name implements policy.Policy.
func (*Agent) Name() string { return "tabular-q" }

// Score implements policy.Policy. A score is the expected discounted sum of rewards, each times the
// number of nodes (see Train in package learn/tabular).
func (a *Agent) Score(s *cluster.Snapshot, pod *cluster.Pod, candidates []int32, scores []float32) error {
	v := a.View(s, pod)
	for i, row := range candidates {
		scores[i] = float32(a.values[v.Cell(s.Nodes[row])])
	}
	return nil
}

// file is the file of an agent. The order of the values is by size bin, then CPU bin, then memory
// bin.
type file struct {
	Format string    `json:"format"`
	Config Config    `json:"config"`
	Values []float64 `json:"values"`
}

// format names the layout of a file and the meaning of its cells.
const format = "gnnsched tabular 1"

// parse decodes what Save writes.
func parse(b []byte) (*Agent, error) {
	var f file
	if err := json.Unmarshal(b, &f); err != nil {
		return nil, fmt.Errorf("tabular agent: %w", err)
	}
	if f.Format != format {
		return nil, fmt.Errorf("tabular agent: format is %q, want %q", f.Format, format)
	}
	if err := f.Config.Validate(); err != nil {
		return nil, fmt.Errorf("tabular agent: config: %w", err)
	}
	if len(f.Values) != f.Config.cells() {
		return nil, fmt.Errorf("tabular agent: %d values, but its bins make %d", len(f.Values), f.Config.cells())
	}
	for i, v := range f.Values {
		if math.Abs(v) > math.MaxFloat32 { // scores are float32; JSON has neither NaN nor infinity
			return nil, fmt.Errorf("tabular agent: value %d is %v, too large for a score", i, v)
		}
	}
	return &Agent{f.Config, f.Values}, nil
}

// Load reads an agent from a file that Save wrote.
func Load(path string) (*Agent, error) {
	b, err := files.Read(path, files.Data)
	if err != nil {
		return nil, fmt.Errorf("tabular agent: %w", err)
	}
	a, err := parse(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return a, nil
}

// Save writes the agent to a file. Readers see the old file or the new one, never a part of it.
func (a *Agent) Save(path string) error {
	b, err := json.Marshal(file{format, a.config, a.values})
	if err != nil {
		return fmt.Errorf("tabular agent: %w", err)
	}
	if err := files.Write(path, append(b, '\n'), 0o600); err != nil {
		return fmt.Errorf("tabular agent: %w", err)
	}
	return nil
}
