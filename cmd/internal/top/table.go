package top

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"sigs.k8s.io/yaml"

	"gnnsched/cmd/internal/top/state"
	"gnnsched/internal/choice"
)

// writeTable writes a row for each node in the style of kubectl, a row of totals, and the
// figures of the whole cluster below.
func writeTable(w io.Writer, f *state.Frame, wide bool) error {
	head := []string{"NAME", "STATUS", "ROLES", "AGE", "VERSION", "CPU", "MEMORY", "GPU", "PODS"}
	if wide {
		head = append(head, "CPU-USED", "MEMORY-USED", "GPU-MODEL", "GPU-DEVICES", "ZONE", "INTERNAL-IP", "TAINTS")
	}
	rows := [][]string{head}
	for i := range f.Nodes {
		rows = append(rows, nodeRow(f.Time, &f.Nodes[i], wide))
	}
	var text strings.Builder
	lines := tabwriter.NewWriter(&text, 0, 0, 3, ' ', 0)
	for _, row := range append(rows, totalRow(&f.Totals)) {
		fmt.Fprintln(lines, strings.Join(row, "\t"))
	}
	lines.Flush() // a builder takes everything
	if _, err := io.WriteString(w, text.String()); err != nil {
		return err
	}
	return writeSummary(w, f)
}

func nodeRow(now time.Time, n *state.Node, wide bool) []string {
	row := []string{
		n.Name, n.Status, cmp.Or(strings.Join(n.Roles, ","), "<none>"), state.Age(now, n.Created), cmp.Or(n.Version, "<none>"),
		usage(n.CPU, state.Cores), usage(n.Memory, state.Bytes), devicesOf(n.GPU), count(n.Pods),
	}
	if wide {
		row = append(row, used(n)...)
		row = append(row, cmp.Or(n.GPUModel, "<none>"), cmp.Or(devicePercents(n.Devices), "<none>"), cmp.Or(n.Zone, "<none>"),
			cmp.Or(n.InternalIP, "<none>"), cmp.Or(strings.Join(n.Taints, ","), "<none>"))
	}
	return row
}

func totalRow(t *state.Totals) []string {
	return []string{
		"TOTAL", fmt.Sprintf("%d/%d ready", t.Ready, t.Nodes), "", "", "",
		usage(t.CPU, state.Cores), usage(t.Memory, state.Bytes), devicesOf(t.GPU), count(t.Pods),
	}
}

// used writes the CPU and the memory that a node uses, like "12.8 (20%)".
func used(n *state.Node) []string {
	if n.Used == nil {
		return []string{"<unknown>", "<unknown>"}
	}
	text := func(u state.Usage, amount int64, write func(int64) string) string {
		u.Requested = amount
		return write(amount) + " (" + state.Percent(u.Fraction()) + ")"
	}
	return []string{text(n.CPU, n.Used.CPU, state.Cores), text(n.Memory, n.Used.Memory, state.Bytes)}
}

// usage writes "12.8/64 (20%)".
func usage(u state.Usage, write func(int64) string) string {
	return write(u.Requested) + "/" + write(u.Allocatable) + " (" + state.Percent(u.Fraction()) + ")"
}

// count writes "3/8", or "-" for a resource that the node does not have.
func count(u state.Usage) string {
	if u.Requested == 0 && u.Allocatable == 0 {
		return "-"
	}
	return fmt.Sprintf("%d/%d", u.Requested, u.Allocatable)
}

// devicePercents writes the requested percentage of each device: "100,81,0".
func devicePercents(devices []int64) string {
	var out []string
	for _, used := range devices {
		out = append(out, state.DevicePercent(used))
	}
	return strings.Join(out, ",")
}

// devicesOf writes "3.5/8", or "-" for a node without GPUs.
func devicesOf(u state.Usage) string {
	if u == (state.Usage{}) {
		return "-"
	}
	return state.Devices(u.Requested) + "/" + state.Devices(u.Allocatable)
}

func writeSummary(w io.Writer, f *state.Frame) error {
	var b strings.Builder
	fmt.Fprintf(&b, "\nPending pods: %d\n", f.PendingCount)
	if t := &f.Totals; t.Workers < t.Nodes {
		fmt.Fprintf(&b, "Total:        amounts of the %d worker nodes, without the control plane\n", t.Workers)
	}
	fmt.Fprintf(&b, "CPU spread:   std %.3f, mean %.3f over %d worker nodes\n", f.CPUSpread.Std, f.CPUSpread.Mean, f.CPUSpread.Nodes)
	for _, s := range f.Schedulers {
		fmt.Fprintf(&b, "Scheduler:    %s: bound %d, pending %d, bound/s %s\n", s.Name, s.Bound, s.Pending, state.Rate(s.Rate))
	}
	if f.Lost != nil {
		fmt.Fprintf(&b, "Disconnected: since %s: %s\n", f.Lost.Since.Format(time.RFC3339), f.Lost.Reason)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

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
