package eval

import (
	"bufio"
	"bytes"
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

	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	strictjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"gnnsched/internal/choice"
	"gnnsched/internal/each"
	"gnnsched/internal/exit"
	"gnnsched/internal/files"
	"gnnsched/scheduler/policy/heuristic"
	"gnnsched/scheduler/sim"
	"gnnsched/workload"
	"gnnsched/workload/record"
	recorded "gnnsched/workload/record/play"
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
	return each.Map(entries, func(e fs.DirEntry) string { return strings.TrimSuffix(e.Name(), ".yaml") })
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

// Read decodes the content of a scenario file, which has one scenario in each YAML document. An
// unknown field, a repeated field and an invalid value are errors that name file, scenario and
// field. Relative paths of a trace, a record or a shapes file are looked up beside the file first.
func Read(file string, data []byte) ([]Scenario, error) {
	var out []Scenario
	seen := map[string]bool{}
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for n := 1; ; n++ {
		doc, err := documents.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		s, err := decode(doc)
		if errors.Is(err, errEmpty) {
			continue
		}
		at := fmt.Sprintf("%s: scenario %d", file, n)
		if s.Name != "" {
			at = fmt.Sprintf("%s: scenario %s", file, s.Name)
		}
		if err == nil {
			s.beside(filepath.Dir(file))
			if err = errors.Join(s.addShapes(), s.addNodes()); err == nil {
				err = s.Validate()
			}
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", at, err)
		}
		if seen[s.Name] {
			return nil, fmt.Errorf("%s: two scenarios in the file have this name", at)
		}
		seen[s.Name] = true
		out = append(out, s)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s: the file has no scenario", file)
	}
	return out, nil
}

// addShapes reads the shapes file, if the scenario names one.
func (s *Scenario) addShapes() error {
	if s.ShapesFile == "" {
		return nil
	}
	data, err := files.Read(s.ShapesFile, files.Data)
	if err != nil {
		return fmt.Errorf("shapesFile: %w", err)
	}
	shapes, err := workload.ReadShapes(s.ShapesFile, data)
	if err != nil {
		return fmt.Errorf("shapesFile: %w", err)
	}
	s.Shapes = append(s.Shapes, shapes...)
	return nil
}

// addNodes adds a pool for each node of a record, if the scenario names one.
func (s *Scenario) addNodes() error {
	if s.NodesFile == "" {
		return nil
	}
	moment, ok, err := record.ParseMoment(s.NodesFile)
	if err == nil && !ok {
		err = fmt.Errorf("%s is not the folder of a record", s.NodesFile)
	}
	if err != nil {
		return fmt.Errorf("nodesFile: %w", err)
	}
	machines, notes, err := recorded.Machines(moment)
	if err != nil {
		return fmt.Errorf("nodesFile: %w", err)
	}
	s.Notes = notes
	for _, m := range machines {
		s.Pools = append(s.Pools, sim.NodePool{
			Count: sim.IntRange{Min: 1, Max: 1}, Allocatable: m.Allocatable, Labels: m.Labels, Taints: m.Taints, Zone: m.Zone, GPUModel: m.GPUModel,
		})
	}
	return nil
}

// beside makes the relative paths of files relative to a folder if the files exist there. Otherwise
// they stay relative to the working directory.
func (s *Scenario) beside(folder string) {
	for _, p := range append(s.Files(), &s.ShapesFile, &s.NodesFile) {
		there := filepath.Join(folder, *p)
		_, err := os.Stat(there)
		if _, moment, _ := record.ParseMoment(there); (err == nil || moment) && *p != "" && !filepath.IsAbs(*p) {
			*p = there
		}
	}
}

var errEmpty = errors.New("the document is empty")

// decode reads one document. Beside an error, the scenario has its name if that could be read.
func decode(doc []byte) (s Scenario, err error) {
	asJSON, err := yaml.YAMLToJSONStrict(doc)
	if err != nil {
		return s, err
	}
	if bytes.Equal(bytes.TrimSpace(asJSON), []byte("null")) {
		return s, errEmpty
	}
	strict, err := strictjson.UnmarshalStrict(asJSON, &s)
	return s, errors.Join(append(strict, err)...)
}

// ChooseScenarios returns the built-in scenarios that match the names and patterns, and those in
// the files, and those of openb:LIST on the openb trace in the folder data. No arguments mean [Default]. A scenario must not be chosen
// twice.
func ChooseScenarios(arguments []string, data string) ([]Scenario, error) {
	if len(arguments) == 0 {
		arguments = Default
	}
	var out []Scenario
	from := map[string]string{}
	for _, a := range arguments {
		scenarios, err := scenariosOf(a, data)
		if err != nil {
			return nil, err
		}
		for _, s := range scenarios {
			if first, twice := from[s.Name]; twice {
				return nil, fmt.Errorf("%s is there twice, from %s and from %s", s.Name, first, a)
			}
			from[s.Name] = a
			out = append(out, s)
		}
	}
	return out, nil
}

// scenariosOf reads a file or the trace, or selects by name or pattern.
func scenariosOf(argument, data string) ([]Scenario, error) {
	if strings.HasPrefix(argument, openBPrefix) {
		return openBScenarios(argument, data)
	}
	if !strings.HasSuffix(argument, ".yaml") && !strings.HasSuffix(argument, ".yml") && !strings.ContainsRune(argument, os.PathSeparator) {
		return selectScenarios(argument)
	}
	text, err := files.Read(argument, files.Text)
	if err != nil {
		return nil, err
	}
	return Read(argument, text)
}

// ChooseThresholds parses thresholds, and checks that the comparison will be able to judge each
// of them: that its scenario is chosen, and that its policies take part.
func ChooseThresholds(texts []string, scenarios []Scenario, contenders []Contender) ([]Threshold, error) {
	policies := choice.Names(contenders, func(x Contender) string { return x.Name })
	var out []Threshold
	for _, text := range texts {
		t, err := ParseThreshold(text)
		if err != nil {
			return nil, exit.New(exit.Usage, fmt.Errorf("--%w", err), "for example 'gnn.cpuStd <= 0.75*kube-scheduler.cpuStd'")
		}
		if !slices.ContainsFunc(scenarios, func(s Scenario) bool { return t.concerns(s.Name) }) {
			return nil, exit.New(exit.Usage, fmt.Errorf("--threshold %q applies to none of the scenarios", t),
				`the name before the colon is a scenario's; write a policy's name with a colon in double quotes, as in "greedy:pack".cost`)
		}
		out = append(out, t)
	}
	for _, s := range scenarios {
		for _, t := range s.judged(out) {
			if err := t.needs(s.takers(policies)); err != nil {
				return nil, exit.New(exit.Usage, fmt.Errorf("scenario %s: %w", s.Name, err), "add the policy with --policies or --checkpoint NAME=FILE")
			}
		}
	}
	return out, nil
}

// Forms are the forms of names besides those of heuristic.Forms. Of those from first-fit on there is no scheduler profile.
var Forms = []heuristic.Form{
	{Name: "stock:FILE", About: "kube-scheduler's score plugins, as a KubeSchedulerConfiguration configures them"},
	{Name: "running:POLICY", About: "POLICY, with typical pods " +
		"counted by the time for which they run, for scenarios in which they come and go"},
	{Name: "first-fit:POLICY", About: "POLICY chooses the node, and a pod gets the node's first devices with room, " +
		"as from upstream's allocator of claims"},
	{Name: "clairvoyant:POLICY", About: "a bound: rollouts of POLICY that know the arrivals and departures to come"},
	{Name: "defrag=SHARE/TIME:POLICY", About: "POLICY, and at each TIME up to SHARE of the running pods move where they lower the " +
		"objective or free GPUs that pods can use, such as defrag=2%/1h:fgd; without a unit, TIME is in the scenario's; " +
		"TIME/greedy makes single moves, and TIME/SEARCH those of another search of gnnsched plan"},
	{Name: "python:FILE", About: "a policy in Python, which scores the candidates of all seeds at once (docs/how-to/python.md)"},
}
