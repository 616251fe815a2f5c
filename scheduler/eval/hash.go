package eval

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"gnnsched/scheduler/sim"
)

// Hash identifies what is played: 16 hexadecimal digits of the configuration and the contents of its files. Outcomes of scenarios with
// different hashes cannot be compared. It is empty for a scenario whose nodes or pods are those of a program.
func (s Scenario) Hash() (string, error) {
	c := s.Config
	if c.Given != nil || c.OpenB != nil && (len(c.OpenB.Nodes) > 0 || len(c.OpenB.Pods) > 0) {
		return "", nil
	}
	h := sha256.New()
	if c.Trace != nil {
		t := *c.Trace
		if err := hashFiles(h, &t.File); err != nil {
			return "", err
		}
		c.Trace = &t
	}
	if c.OpenB != nil {
		o := *c.OpenB
		if err := hashFiles(h, &o.NodesFile, &o.PodsFile); err != nil {
			return "", err
		}
		c.OpenB = &o
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

// Merge joins comparisons that were played on the same scenario with the same seeds, as several files may hold them: the first has the
// baseline, and a policy that is in both must have the same outcomes. Results that cannot be compared, because the scenarios have the
// same name and other contents, are an error.
func Merge(all []*Comparison) ([]*Comparison, error) {
	var out []*Comparison
next:
	for _, c := range all {
		for _, o := range out {
			if o.Scenario.Name != c.Scenario.Name || o.hash == "" || c.hash == "" {
				continue
			}
			if o.hash != c.hash {
				return nil, fmt.Errorf("%s was played from two different files (hashes %s and %s): the results cannot be compared", c.Scenario.Name, o.hash, c.hash)
			}
			if !slices.Equal(o.Seeds, c.Seeds) {
				continue
			}
			if err := o.add(c.Results); err != nil {
				return nil, err
			}
			o.Scenario.Thresholds = append(o.Scenario.Thresholds, c.Scenario.Thresholds...)
			continue next
		}
		out = append(out, c)
	}
	return out, nil
}

// add adds results of the same episodes.
func (c *Comparison) add(results []Result) error {
	for _, r := range results {
		known := false
		for _, o := range c.Results {
			if o.Name != r.Name {
				continue
			}
			if !reflect.DeepEqual(o.Outcomes, r.Outcomes) {
				return fmt.Errorf("%s: two files have different outcomes of %s: give one of them another name", c.Scenario.Name, r.Name)
			}
			known = true
		}
		if !known {
			c.Results = append(c.Results, r)
		}
	}
	return nil
}
