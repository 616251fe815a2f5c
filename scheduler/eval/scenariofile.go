package eval

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	strictjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"gnnsched/internal/files"
	"gnnsched/scheduler/sim"
	"gnnsched/workload"
	"gnnsched/workload/record"
	recorded "gnnsched/workload/record/play"
)

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
