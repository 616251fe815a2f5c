package plan

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"time"
)

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
		fmt.Fprintf(&b, "note: %s\n", plain(n))
	}
	_, err := w.Write(b.Bytes())
	return err
}

func (t LossAt) write(b *bytes.Buffer) error {
	fmt.Fprintf(b, "At %s, %s, %d of %d nodes go: %s\n", t.At.Format(time.RFC3339), t.What, len(t.Lost.Lost),
		t.Nodes, plain(strings.Join(t.Lost.Lost, ", ")))
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
	var sums, rows [][]string
	for _, p := range t.Profiles {
		sums = append(sums, []string{plain(p.Profile), fmt.Sprint(len(p.Before)), fmt.Sprint(len(p.After))})
		for _, g := range grouped(p.After) {
			rows = append(rows, []string{plain(p.Profile), plain(g.name()), fmt.Sprint(g.pods), plain(g.Why)})
		}
	}
	if err := Table(b, []string{"profile", "pods without a node before", "after"}, sums); err != nil {
		return err
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
