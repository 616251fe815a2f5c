package report

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"gnnsched/cmd/internal/top/state"
	"gnnsched/internal/choice"
)

// Format is an output format of ktop.
type Format string

// The formats.
const (
	Table Format = "table"
	Wide  Format = "wide"
	JSON  Format = "json"
	YAML  Format = "yaml"
)

// ParseFormat reads a format. Empty text means the table.
func ParseFormat(s string) (Format, error) {
	if s == "" {
		return Table, nil
	}
	if known := []string{string(Table), string(Wide), string(JSON), string(YAML)}; !slices.Contains(known, s) {
		return "", choice.Unknown("format", s, known)
	}
	return Format(s), nil
}

// Write writes one frame. Nodes keep their order.
func Write(w io.Writer, format Format, f *state.Frame) error {
	switch format {
	case JSON:
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		enc.SetEscapeHTML(false)
		return enc.Encode(documentOf(f))
	case YAML:
		return writeYAML(w, f, "")
	}
	return writeTable(w, f, format == Wide)
}

// WriteNext writes one frame of a series: JSON as one document per line, YAML documents
// separated by ---, tables by an empty line.
func WriteNext(w io.Writer, format Format, f *state.Frame, first bool) error {
	switch format {
	case JSON:
		enc := json.NewEncoder(w)
		enc.SetEscapeHTML(false)
		return enc.Encode(documentOf(f))
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
	b, err := yaml.Marshal(documentOf(f))
	if err != nil {
		return fmt.Errorf("write YAML: %w", err)
	}
	_, err = io.WriteString(w, before+string(b))
	return err
}

// numbered returns "1 pod" or "2 pods".
func numbered(n int64, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

// Line writes the frame in one line, to show progress without a view:
// "10 nodes, 312 pods bound, 12 pending, CPU 20%, spread 0.034, gnn 12.3/s".
func Line(f *state.Frame) string {
	t := &f.Totals
	parts := []string{
		numbered(int64(t.Nodes), "node"),
		numbered(int64(t.Pods.Requested), "pod") + " bound",
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
