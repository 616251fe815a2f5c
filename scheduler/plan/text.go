package plan

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/olekukonko/tablewriter"
	"github.com/olekukonko/tablewriter/tw"
	"k8s.io/apimachinery/pkg/util/validation"

	"gnnsched/scheduler/advise"
)

// maxText is the number of bytes of a cell. Names and reasons come from a file.
const maxText = 200

// WriteText writes the moves for people.
func (m Moves) WriteText(w io.Writer) error {
	var b bytes.Buffer
	gain := fmt.Sprintf("%d of %d nodes become empty", len(m.Freed), m.Nodes)
	if m.Room != nil {
		gain = fmt.Sprintf("%s fits on %s", plain(m.Room.Pod), plain(m.Room.Node))
	}
	head := []string{"round", "pod", "GiB", "from", "to", "budget"}
	if l := m.Lower; l != nil {
		gain, head = fmt.Sprintf("%s falls from %.4f to %.4f", l.Objective, l.Before, l.After), append(head, "gain")
	}
	fmt.Fprintf(&b, "%s. Pods to move: %d, rounds: %d.", gain, len(m.Moves), m.Rounds)
	if m.Commands != nil {
		fmt.Fprint(&b, " Nothing has been moved.")
	}
	fmt.Fprintln(&b)
	for _, l := range []struct {
		what  string
		nodes []string
	}{{"become empty", m.Freed}, {"are empty now", m.Empty}} {
		if len(l.nodes) > 0 {
			fmt.Fprintf(&b, "%s: %s\n", l.what, plain(strings.Join(l.nodes, ", ")))
		}
	}
	for _, e := range m.Effects {
		if before, after := fmt.Sprintf("%.1f", e.Before), fmt.Sprintf("%.1f", e.After); before != after {
			fmt.Fprintf(&b, "%s: %s, then %s\n", e.What, before, after)
		}
	}
	if m.Waiting > 0 {
		fmt.Fprintf(&b, "note: %d pods wait at this time; the moves do not count them\n", m.Waiting)
	}
	if n := m.losing(); n > 0 {
		fmt.Fprintf(&b, "note: %d of the moved pods lose the data of their emptyDir volumes\n", n)
	}
	for _, n := range m.Notes {
		fmt.Fprintf(&b, "note: %s\n", plain(n))
	}
	if err := Table(&b, head, m.rows()); err != nil {
		return err
	}
	var rows [][]string
	for _, x := range m.Stay {
		rows = append(rows, []string{plain(x.Node), fmt.Sprint(x.Pods), plain(x.Why)})
	}
	if err := Table(&b, []string{"stays in use", "pods", "in the way"}, rows); err != nil {
		return err
	}
	if len(m.Commands) > 0 {
		fmt.Fprintln(&b, "\nTo move the pods, run these commands without --dry-run=server. kubectl drain waits where a budget asks for it.")
	}
	for _, c := range m.Commands {
		fmt.Fprintln(&b, "    "+c)
	}
	_, err := w.Write(b.Bytes())
	return err
}

// rows returns the table of the moves.
func (m Moves) rows() (rows [][]string) {
	for _, x := range m.Moves {
		rows = append(rows, []string{
			fmt.Sprint(x.Round), plain(x.Pod), fmt.Sprintf("%.1f", float64(x.Memory)/(1<<30)), plain(x.From),
			plain(strings.Join(append([]string{OnGPUs(x.To, x.GPUs)}, x.Devices...), ", ")), plain(x.Budget),
		})
		if m.Lower != nil {
			rows[len(rows)-1] = append(rows[len(rows)-1], fmt.Sprintf("%.4f", x.Gain))
		}
	}
	return rows
}

// OnGPUs names a node with GPUs of it.
func OnGPUs(node, gpus string) string {
	if gpus == "" {
		return node
	}
	return node + ", GPU " + gpus
}

// losing returns the number of moved pods that lose data.
func (m Moves) losing() (n int) {
	for _, x := range m.Moves {
		if x.Loses != "" {
			n++
		}
	}
	return n
}

func plain(text string) string { return advise.Shorten(text, maxText) }

// Table writes rows, if there are any, each cell shortened to what people read.
func Table(w io.Writer, header []string, rows [][]string) error {
	if len(rows) == 0 {
		return nil
	}
	fmt.Fprintln(w)
	t := tablewriter.NewTable(w, tablewriter.WithHeaderAutoFormat(tw.Off), tablewriter.WithAlignment(tw.MakeAlign(len(header), tw.AlignLeft)))
	t.Header(header)
	for _, row := range rows {
		for i := range row {
			row[i] = plain(row[i])
		}
	}
	if err := t.Bulk(rows); err != nil {
		return err
	}
	return t.Render()
}

// commands returns the commands that empty the freed nodes in their order, each with kubectl's flag for a dry run. The first one keeps the
// scheduler from these nodes and from the empty ones. Nodes with names that Kubernetes does not allow, which a file may have, are left out.
func commands(freed, empty []string, l Limits) []string {
	out := []string{}
	if len(freed) == 0 {
		return out
	}
	const dry = " --dry-run=server"
	bad := func(name string) bool { return len(validation.IsDNS1123Subdomain(name)) > 0 }
	closed := slices.DeleteFunc(slices.Concat(freed, empty), bad)
	if len(closed) == 0 {
		return out
	}
	out = append(out, "kubectl cordon "+strings.Join(closed, " ")+dry)
	for _, n := range freed {
		if bad(n) {
			continue
		}
		c := "kubectl drain " + n + " --ignore-daemonsets"
		if l.EmptyDirs {
			c += " --delete-emptydir-data"
		}
		out = append(out, c+dry)
	}
	return out
}
