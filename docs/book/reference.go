package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/feature"
	"gnnsched/internal/exit"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/objective"
	"gnnsched/scheduler/policy/heuristic"
	"gnnsched/scheduler/policy/linear"
	"gnnsched/workload/measured"
	"gnnsched/workload/trace"
)

// The producers of the reference. Each lists what the code has registered:
//
//	scenarios                 the built-in scenarios with their objectives
//	policies cpu|usage|gpu    heuristics for any cluster, by measured usage, or for GPUs
//	policies forms            the families of policies with a parameter in their names
//	networks                  the shipped networks
//	features, features linear the sets of features of networks, or those of the linear policies
//	objectives                the terms of objectives
//	eval-metrics              the metrics of gnnsched eval
//	exit-codes                the exit codes
//	prometheus-metrics        the metrics that schedulers and gnnsched serve expose
//	formats traces|records    the formats of traces, or of the records that gnnsched convert reads
//	flags, keys               nothing: the commands and ktop write these parts themselves (see `make docs`)

// kept returns a producer that leaves the parts of a page of the reference as they are.
func kept(page, producer string) func(root, of string) (string, error) {
	return func(root, of string) (string, error) {
		text, err := os.ReadFile(filepath.Join(root, "docs", "reference", page))
		if err != nil {
			return "", err
		}
		_, rest, found := strings.Cut(string(text), strings.TrimSpace("<!-- generated: "+producer+" "+of)+" -->\n")
		mine, _, closed := strings.Cut(rest, "<!-- end -->")
		if !found || !closed {
			return "", fmt.Errorf("%s has no part %s %s", page, producer, of)
		}
		return mine, nil
	}
}

// markdownTable returns rows as a Markdown table. It escapes vertical bars in cells. The columns whose indexes are in
// numeric are aligned to the right.
func markdownTable(head []string, rows [][]string, numeric ...int) string {
	var out strings.Builder
	line := func(cells []string) {
		for _, c := range cells {
			out.WriteString("| " + strings.ReplaceAll(c, "|", `\|`) + " ")
		}
		out.WriteString("|\n")
	}
	line(head)
	for i := range head {
		if slices.Contains(numeric, i) {
			out.WriteString("|--:")
		} else {
			out.WriteString("|---")
		}
	}
	out.WriteString("|\n")
	for _, r := range rows {
		line(r)
	}
	return out.String()
}

// span returns text as a span of code in Markdown.
func span(text string) string { return "`" + text + "`" }

// listed returns a table with a row for each element.
func listed[T any](head []string, all []T, cells func(T) []string) string {
	text, _ := tryListed(head, all, func(x T) ([]string, error) { return cells(x), nil })
	return text
}

// tryListed is listed with cells that may be missing. The columns whose indexes are in numeric are aligned to the right.
func tryListed[T any](head []string, all []T, cells func(T) ([]string, error), numeric ...int) (string, error) {
	var rows [][]string
	for _, x := range all {
		row, err := cells(x)
		if err != nil {
			return "", err
		}
		rows = append(rows, row)
	}
	return markdownTable(head, rows, numeric...), nil
}

func scenarios(_, _ string) (string, error) {
	all := eval.Scenarios()
	slices.SortFunc(all, func(a, b eval.Scenario) int { return strings.Compare(a.Name, b.Name) })
	return listed([]string{"scenario", "cluster and workload", "objective"}, all, func(s eval.Scenario) []string {
		return []string{span(s.Name), s.About, span(s.Objective.Name())}
	}), nil
}

func policies(_, of string) (string, error) {
	if of == "forms" {
		return listed([]string{"name", "chooses"}, slices.Concat(heuristic.Forms(), eval.Forms), func(f heuristic.Form) []string {
			return []string{span(f.Name), f.About}
		}), nil
	}
	names := map[string]func() []string{"cpu": heuristic.Names, "usage": heuristic.UsageNames, "gpu": heuristic.GPUNames}[of]
	if names == nil {
		return "", fmt.Errorf("want cpu, usage, gpu or forms")
	}
	all := slices.DeleteFunc(heuristic.List(), func(h heuristic.Heuristic) bool { return !slices.Contains(names(), h.Name) })
	return listed([]string{"policy", "chooses"}, all, func(h heuristic.Heuristic) []string { return []string{span(h.Name), h.About} }), nil
}

func networks(_, _ string) (string, error) {
	head := []string{"network", "graph", "encoder and head", "features", "objective"}
	return shippedTable(head, func(c *checkpoint.Checkpoint) ([]string, error) {
		a := c.Manifest.Architecture
		return []string{
			cmp.Or(string(a.Graph), "cluster"), fmt.Sprintf("%v, %v, %d wide", a.Encoder, a.Head, a.Hidden), featureSets(a),
			span(c.Manifest.Objective),
		}, nil
	})
}

// featureSets returns the names of a network's sets of features.
func featureSets(a checkpoint.Architecture) string {
	return cmp.Or(strings.Join(a.Features, ", "), "base")
}

func features(_, of string) (string, error) {
	if of == "linear" {
		var rows [][]string
		for i, name := range linear.Features {
			rows = append(rows, []string{span(name), linear.Docs[i]})
		}
		return markdownTable([]string{"feature", ""}, rows), nil
	}
	var out strings.Builder
	for _, s := range feature.Sets() {
		of := ""
		if s.GPU {
			of = " of the GPU graph"
		}
		fmt.Fprintf(&out, "### %s%s\n\n%s\n\n", s.Name, of, s.Doc)
		out.WriteString(featureTable([]kind{
			{"node", feature.List(s.Node)}, {"group of pods", feature.List(s.Group)}, {"pending pod", feature.List(s.Pod)},
			{"cluster", feature.List(s.Cluster)}, {"candidate", feature.List(s.Candidate)}, {"path", feature.List(s.Path)},
		}))
	}
	return out.String(), nil
}

// kind holds the features of one kind of vertex.
type kind struct {
	of   string
	list []feature.Feature
}

func featureTable(kinds []kind) string {
	var rows [][]string
	for _, k := range kinds {
		for _, f := range k.list {
			rows = append(rows, []string{k.of, span(f.Name), f.Doc})
		}
	}
	return markdownTable([]string{"of", "feature", ""}, rows) + "\n"
}

func objectives(_, _ string) (string, error) {
	return tryListed([]string{"term", "cost"}, objective.Terms, func(t objective.Term) ([]string, error) {
		d, ok := t.(objective.Described)
		if !ok {
			return nil, fmt.Errorf("the term %s has no About", t.Name())
		}
		return []string{span(t.Name()), d.About()}, nil
	})
}

func evalMetrics(_, _ string) (string, error) {
	return tryListed([]string{"metric", "in tables", ""}, eval.Metrics, func(m eval.Metric) ([]string, error) {
		if m.About() == "" {
			return nil, fmt.Errorf("the metric %s has no About", m.Name)
		}
		return []string{span(m.Name), m.Title, m.About()}, nil
	})
}

func exitCodes(_, _ string) (string, error) {
	return listed([]string{"code", "meaning"}, exit.Meanings(),
		func(m exit.Meaning) []string { return []string{fmt.Sprint(m.Code), m.Text} }), nil
}

func formats(_, of string) (string, error) {
	head := []string{"`--format`", ""}
	switch of {
	case "traces":
		return listed(head, trace.Formats(), func(f *trace.Format) []string { return []string{span(f.Name), f.About} }), nil
	case "records":
		return listed(head, measured.Formats(), func(f *measured.Format) []string { return []string{span(f.Name), f.About} }), nil
	}
	return "", fmt.Errorf("want traces or records")
}
