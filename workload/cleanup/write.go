package cleanup

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
)

// Formats are the output formats of [Inventory.Write].
var Formats = []string{"table", "name", "json"}

// Write writes the inventory: as a table with a row for each run and namespace, as names that
// kubectl delete accepts, or as JSON.
func (i Inventory) Write(w io.Writer, format string) error {
	switch format {
	case "table":
		return i.writeTable(w)
	case "name":
		return i.writeNames(w)
	case "json":
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		return enc.Encode(i)
	}
	return fmt.Errorf("unknown output format %q", format)
}

func (i Inventory) writeNames(w io.Writer) error {
	for _, o := range i.Objects {
		line := fmt.Sprintf("%s/%s -n %s\n", o.Kind, o.Name, o.Namespace)
		if o.Kind == classes {
			line = fmt.Sprintf("%s/%s\n", o.Kind, o.Name)
		}
		if _, err := io.WriteString(w, line); err != nil {
			return err
		}
	}
	for _, n := range removable(i.Namespaces) {
		if _, err := fmt.Fprintf(w, "namespaces/%s\n", n.Name); err != nil {
			return err
		}
	}
	return nil
}

func (i Inventory) writeTable(w io.Writer) error {
	if i.Empty() {
		_, err := fmt.Fprintln(w, "nothing to remove")
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprintln(t, "NAMESPACE\tRUN\tDEPLOYMENTS\tREPLICASETS\tPODS\tCLAIMS")
	for _, g := range i.Groups() {
		fmt.Fprintf(t, "%s\t%s\t%d\t%d\t%d\t%d\n", g.Namespace, g.Run, g.Deployments, g.ReplicaSets, g.Pods, g.Claims)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, o := range i.Objects {
		if o.Kind != classes {
			continue
		}
		if _, err := fmt.Fprintf(w, "priority class %s\n", o.Name); err != nil {
			return err
		}
	}
	for _, n := range removable(i.Namespaces) {
		if _, err := fmt.Fprintf(w, "namespace %s\n", n.Name); err != nil {
			return err
		}
	}
	return nil
}
