package plan

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	values "gnnsched/internal/cluster"
	"gnnsched/internal/cluster/kube"
	"gnnsched/internal/each"
	"gnnsched/internal/table"
	"gnnsched/scheduler/advise"
	"gnnsched/scheduler/moves"
	"gnnsched/scheduler/objective"
)

// maxText and maxNote are the numbers of bytes of a cell and of a note. Names and reasons come from a file.
const (
	maxText = 200
	maxNote = 1000
)

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
		fmt.Fprintf(&b, "note: %s\n", advise.Shorten(n, maxNote))
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
func (m Moves) losing() int {
	return each.Count(m.Moves, func(x Move) bool { return x.Loses != "" })
}

func plain(text string) string { return advise.Shorten(text, maxText) }

// Table writes rows, if there are any, each cell shortened to what people read.
func Table(w io.Writer, header []string, rows [][]string) error {
	if len(rows) == 0 {
		return nil
	}
	fmt.Fprintln(w)
	t := table.Of(header...)
	for _, row := range rows {
		t = append(t, each.Map(row, plain))
	}
	return t.Framed(w, 0)
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

// Effect is a figure of the cluster before and after the moves.
type Effect struct {
	What   string  `json:"what"`
	Before float64 `json:"before"`
	After  float64 `json:"after"`
}

// effects returns what steps bring beside their goal.
func (v *view) effects(steps []moves.Step) (out []Effect) {
	after, pods := make([]*values.Node, len(v.nodes)), slices.Clone(v.on)
	for i, n := range v.nodes {
		c := *n
		c.Groups, c.GPUs = slices.Clone(n.Groups), slices.Clone(n.GPUs)
		after[i] = &c
	}
	for _, s := range steps {
		asks, _ := kube.Pod(v.pods[s.Pod])
		home := v.home[s.Pod]
		after[home.Row].Remove(asks.Requests, home.Devices)
		after[s.Row].AddOn(asks.Requests, s.Devices)
		pods[home.Row]--
		pods[s.Row]++
	}
	figure := func(what string, of func(nodes []*values.Node, pods []int) float64) {
		out = append(out, Effect{what, of(v.nodes, v.on), of(after, pods)})
	}
	figure("power in W", func(nodes []*values.Node, _ []int) float64 {
		return each.Sum(nodes, objective.Watts)
	})
	figure("power in W if empty nodes are off", func(nodes []*values.Node, pods []int) (sum float64) {
		for row, n := range nodes {
			if pods[row] > 0 || v.StaysInUse(int32(row)) != "" {
				sum += objective.Watts(n)
			}
		}
		return sum
	})
	if slices.ContainsFunc(v.nodes, (*values.Node).HasDevices) && v.typical != nil {
		figure("idle GPUs that typical pods cannot use", func(nodes []*values.Node, _ []int) (sum float64) {
			for _, n := range nodes {
				if n.HasDevices() {
					sum += v.typical.Fragmentation(n) / values.DeviceMilli
				}
			}
			return sum
		})
	}
	return out
}

// maxRows is the number of groups of pods that a table shows.
const maxRows = 50

// WriteText writes the losses for people.
func (l Losses) WriteText(w io.Writer) error {
	var b bytes.Buffer
	for i, t := range l.Times {
		if i > 0 {
			fmt.Fprintln(&b)
		}
		if err := t.write(&b); err != nil {
			return err
		}
	}
	for _, n := range l.Notes {
		fmt.Fprintf(&b, "note: %s\n", advise.Shorten(n, maxNote))
	}
	_, err := w.Write(b.Bytes())
	return err
}

func (t LossAt) write(b *bytes.Buffer) error {
	var answer []string
	for _, p := range t.Profiles {
		answer = append(answer, fmt.Sprintf("%d with %s (%d before)", len(p.After), plain(p.Profile), len(p.Before)))
	}
	fmt.Fprintf(b, "Pods without a node if %d of %d nodes go at %s, %s: %s\nnodes that go: %s\n", len(t.Lost.Lost), t.Nodes,
		t.At.Format(time.RFC3339), t.What, strings.Join(answer, ", "), plain(strings.Join(t.Lost.Lost, ", ")))
	fmt.Fprintf(b, "Pods that need another node: %d\n", t.Displaced)
	for _, n := range []struct {
		pods int
		what string
	}{
		{len(t.Bare), "pods have no controller and do not come back: " + strings.Join(t.Bare, ", ")},
		{t.EmptyDirs, "of the displaced pods lose the data of their emptyDir volumes"},
		{t.Unjudged, "of the displaced pods have claims of volumes, hostPath volumes, ResourceClaims or shares of a GPU. " +
			"They are placed as if they had none"},
		{t.Unknown, "of the displaced pods may have emptyDir or hostPath volumes or ResourceClaims: the record does not say"},
	} {
		if n.pods > 0 {
			fmt.Fprintf(b, "note: %d %s\n", n.pods, plain(n.what))
		}
	}
	var rows [][]string
	for _, p := range t.Profiles {
		for _, g := range grouped(p.After) {
			rows = append(rows, []string{plain(p.Profile), plain(g.name()), fmt.Sprint(g.pods), plain(g.Why)})
		}
	}
	left := len(rows) - maxRows
	if err := Table(b, []string{"profile", "without a node", "pods", "why"}, rows[:min(len(rows), maxRows)]); err != nil {
		return err
	}
	if left > 0 {
		fmt.Fprintf(b, "and %d more rows; -o json has all pods\n", left)
	}
	return nil
}

// group is pods of one workload that get no node for the same reasons.
type group struct {
	Unplaced
	pods int
}

// name names the workload, or the pod if there is but one.
func (g group) name() string {
	namespace, _, _ := strings.Cut(g.Pod, "/")
	if g.pods == 1 || g.Workload == "" {
		return g.Pod
	}
	return namespace + "/" + g.Workload
}

// grouped joins the pods of each workload that get no node for the same reasons.
func grouped(list []Unplaced) (out []group) {
	type key struct{ namespace, workload, why string }
	at := map[key]int{}
	for _, u := range list {
		namespace, _, _ := strings.Cut(u.Pod, "/")
		k := key{namespace, u.Workload, u.Why}
		if u.Workload == "" {
			k.workload = u.Pod
		}
		i, known := at[k]
		if !known {
			i = len(out)
			at[k] = i
			out = append(out, group{Unplaced: u})
		}
		out[i].pods++
	}
	return out
}
