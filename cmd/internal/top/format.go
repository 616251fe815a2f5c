package top

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"

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

// writeFrame writes one frame. Nodes keep their order.
func writeFrame(w io.Writer, format Format, f *state.Frame) error {
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

// writeNext writes one frame of a series: JSON as one document per line, YAML documents
// separated by ---, tables by an empty line.
func writeNext(w io.Writer, format Format, f *state.Frame, first bool) error {
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
