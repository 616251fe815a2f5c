package report

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"gnnsched/cmd/internal/top/state"
)

// Format is what --output may say.
type Format string

// The formats.
const (
	Table Format = "table"
	Wide  Format = "wide"
	JSON  Format = "json"
	YAML  Format = "yaml"
)

// Formats lists every format.
func Formats() []Format { return []Format{Table, Wide, JSON, YAML} }

// ParseFormat reads a format; the empty text is the table.
func ParseFormat(s string) (Format, error) {
	if s == "" {
		return Table, nil
	}
	if !slices.Contains(Formats(), Format(s)) {
		return "", fmt.Errorf("output format %q is not table, wide, json or yaml", s)
	}
	return Format(s), nil
}

// Write writes one frame, nodes in the order they have.
func Write(w io.Writer, format Format, f *state.Frame) error {
	switch format {
	case JSON:
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		enc.SetEscapeHTML(false)
		return enc.Encode(DocumentOf(f))
	case YAML:
		return writeYAML(w, f, "")
	}
	return writeTable(w, f, format == Wide)
}

// WriteNext writes one frame of several: JSON as one document a line, YAML documents and
// tables set apart from each other.
func WriteNext(w io.Writer, format Format, f *state.Frame, first bool) error {
	switch format {
	case JSON:
		enc := json.NewEncoder(w)
		enc.SetEscapeHTML(false)
		return enc.Encode(DocumentOf(f))
	case YAML:
		return writeYAML(w, f, "---\n")
	}
	if !first {
		if _, err := io.WriteString(w, "\n"); err != nil {
			return err
		}
	}
	return writeTable(w, f, format == Wide)
}

func writeYAML(w io.Writer, f *state.Frame, before string) error {
	b, err := yaml.Marshal(DocumentOf(f))
	if err != nil {
		return fmt.Errorf("write YAML: %w", err)
	}
	_, err = io.WriteString(w, before+string(b))
	return err
}

// Line is the frame in one line, for progress where no view can be drawn:
// "10 nodes, 312 pods bound, 12 pending, CPU 20%, spread 0.034, gnn 12.3/s".
func Line(f *state.Frame) string {
	t := &f.Totals
	parts := []string{
		fmt.Sprintf("%d nodes", t.Nodes),
		fmt.Sprintf("%d pods bound", t.Pods.Requested),
		fmt.Sprintf("%d pending", f.PendingCount),
		"CPU " + state.Percent(t.CPU.Fraction()),
		fmt.Sprintf("spread %.3f", f.CPUSpread.Std),
	}
	if t.Ready < t.Nodes {
		parts[0] += fmt.Sprintf(" (%d not ready)", t.Nodes-t.Ready)
	}
	for _, s := range f.Schedulers {
		if s.Rate > 0 {
			parts = append(parts, s.Name+" "+state.Rate(s.Rate)+"/s")
		}
	}
	if f.Lost != nil {
		parts = append(parts, "disconnected for "+state.Age(f.Time, f.Lost.Since))
	}
	return strings.Join(parts, ", ")
}
