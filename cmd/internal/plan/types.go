package plan

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	ucli "github.com/urfave/cli/v2"

	"gnnsched/cmd/internal/recording"
	"gnnsched/internal/choice"
	"gnnsched/internal/exit"
	"gnnsched/kwok/nodepool"
	"gnnsched/scheduler/plan"
	"gnnsched/scheduler/replay"
	"gnnsched/workload/record/observe"
)

// runTypes looks for the cheapest mix of types.
func runTypes(c *ucli.Context, s *session) error {
	target, err := targetOf(c)
	if err != nil {
		return err
	}
	prices, err := recording.Prices(c)
	if err != nil {
		return err
	}
	if prices == nil {
		return exit.New(exit.Usage, errors.New("--types needs --prices FILE: what a node of each type costs an hour"),
			"docs/how-to/compare.md shows such a file")
	}
	profiles, err := profilesOf(c)
	if err != nil {
		return err
	}
	w := recording.Window(c)
	w.Instant = true
	source, err := recording.Source(c, w)
	if err != nil {
		return err
	}
	types, err := typesOf(c.String("types"), &source, prices)
	if err != nil {
		return err
	}
	out, err := types.FindMixes(c.Context, source, profiles, target, s.replays(target))
	if paid, known := plan.Recorded(&source, prices); known {
		out.Paid = &paid
	}
	hint := ""
	switch misfit := (*plan.MisfitError)(nil); {
	case errors.As(err, &misfit):
		hint = "add a type with what they need: more CPU, memory or GPUs, the labels that they select, or no taint that they do not tolerate"
	case errors.Is(err, plan.ErrNameTaken):
		hint = "give the type another name"
	default:
		return s.finish(c, out, err)
	}
	s.bar.Close()
	return exit.New(exit.Usage, fmt.Errorf("%s: %w", c.Args().First(), err), hint)
}

// typesOf reads --types: a file with node pools, or names of types that the record has nodes of.
func typesOf(text string, s *replay.Source, prices *replay.Prices) (plan.Types, error) {
	var out plan.Types
	var err error
	if isFile(text) {
		out, err = typesOfFile(text, prices.Label)
	} else {
		out, err = typesOfRecord(text, s, prices.Label)
	}
	if err != nil {
		return nil, err
	}
	var free []string
	for i := range out {
		price, known := prices.Of(&out[i].Nodes[0])
		if !known {
			free = append(free, out[i].Name)
		}
		out[i].Price = price
	}
	if len(free) > 0 {
		return nil, exit.New(exit.Usage, fmt.Errorf("--prices says nothing of the types %s", strings.Join(free, ", ")),
			fmt.Sprintf("nodes: prices them by their label %s, and other: by what they offer", prices.Label))
	}
	return out, nil
}

// isFile tells files from names of types.
func isFile(text string) bool {
	ext := filepath.Ext(text)
	_, err := os.Stat(text)
	return err == nil || !errors.Is(err, fs.ErrNotExist) || ext == ".yaml" || ext == ".yml"
}

// typesOfFile reads a type for each pool; the pool's count limits the number of nodes. If a pool lacks the label that prices depend on, its
// name becomes the label's value.
func typesOfFile(path, label string) (out plan.Types, err error) {
	pools, err := nodepool.Load(path)
	if err != nil {
		return nil, err
	}
	for _, p := range pools {
		if p.Labels[label] == "" {
			labels := map[string]string{label: p.Name}
			for k, v := range p.Labels {
				if k != label {
					labels[k] = v
				}
			}
			p.Labels = labels
		}
		t := plan.Type{Name: p.Name, Limit: p.Count}
		for i := range max(len(p.Zones), 1) {
			t.Nodes = append(t.Nodes, observe.Node(p.Node(i)))
		}
		out = append(out, t)
	}
	return out, nil
}

// typesOfRecord returns the named types of the record's own nodes, as many of each as needed.
func typesOfRecord(list string, s *replay.Source, label string) (out plan.Types, err error) {
	all := plan.RecordedTypes(s, label)
	known := choice.Names(all, func(t plan.Type) string { return t.Name })
	for _, name := range strings.Split(list, ",") {
		name = strings.TrimSpace(name)
		i := slices.Index(known, name)
		if i < 0 {
			hint := "the record has nodes of " + strings.Join(known, ", ")
			if len(known) == 0 {
				hint = fmt.Sprintf("no worker of the record has the label %s; describe the types in a file of node pools as in docs/how-to/plan.md",
					label)
			}
			return nil, exit.New(exit.Usage, fmt.Errorf("--types %s: %q is no file, and the record has no worker of this type", list, name), hint)
		}
		t := all[i]
		t.Limit = nodepool.MaxNodes
		if !slices.ContainsFunc(out, func(o plan.Type) bool { return o.Name == name }) {
			out = append(out, t)
		}
	}
	return out, nil
}
