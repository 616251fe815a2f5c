package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"gnnsched/internal/exit"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/eval/figure"
)

var evalFormats = []string{"table", "markdown", "csv", "json"}

func (e evaluation) write(w io.Writer, comparisons []*eval.Comparison) error {
	switch e.format {
	case "json":
		out := json.NewEncoder(w)
		out.SetIndent("", "  ")
		return out.Encode(comparisons)
	case "csv":
		return eval.WriteCSV(w, comparisons)
	}
	for _, r := range comparisons {
		write := r.WriteSummary
		switch {
		case e.format == "markdown":
			write = r.WriteMarkdown
		case e.all:
			write = r.WriteTable
		}
		if err := write(w); err != nil {
			return err
		}
	}
	return nil
}

// draw writes a figure of each comparison into the directory of --plot.
func (e evaluation) draw(comparisons []*eval.Comparison) error {
	if e.plots == "" {
		return nil
	}
	if err := os.MkdirAll(e.plots, 0o755); err != nil {
		return exit.New(exit.Usage, fmt.Errorf("--plot: %w", err), "choose a directory that you can write to")
	}
	for _, r := range comparisons {
		svg, err := figure.SVG(r)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(e.plots, r.Scenario.Name+".svg"), svg, 0o644); err != nil {
			return exit.New(exit.Usage, fmt.Errorf("--plot: %w", err), "choose a directory that you can write to")
		}
	}
	return nil
}

// missed is the error of the thresholds that do not hold.
func missed(comparisons []*eval.Comparison) error {
	var lines []string
	judged := 0
	for _, r := range comparisons {
		for _, v := range r.Verdicts {
			if judged++; !v.Pass {
				lines = append(lines, "\n  "+r.Scenario.Name+": "+v.String())
			}
		}
	}
	if len(lines) == 0 {
		return nil
	}
	return exit.New(exit.Gate, fmt.Errorf("%d of %d thresholds missed:%s", len(lines), judged, strings.Join(lines, "")), "")
}
