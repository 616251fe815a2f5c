package defrag

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"gnnsched/scheduler/plan"
)

// WriteText writes the outcome for people.
func (o Outcome) WriteText(w io.Writer) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "\n%d pods moved, %d of them to other nodes than planned; %d stay.\n", len(o.Moved), o.elsewhere(), len(o.Stayed))
	if len(o.Emptied) > 0 {
		fmt.Fprintf(&b, "empty and cordoned: %s\nTo use them again: kubectl uncordon %[1]s\n", strings.Join(o.Emptied, " "))
	}
	for _, n := range o.Used {
		fmt.Fprintf(&b, "not empty: %s, because %s\n", n.Node, n.Why)
	}
	if o.Room != nil {
		fmt.Fprintf(&b, "%s has its place on %s\n", o.Room.Pod, o.Room.Node)
	}
	var rows [][]string
	for _, m := range o.Moved {
		if m.elsewhere() {
			rows = append(rows, []string{m.New, m.From, plan.OnGPUs(m.To, m.GPUs), plan.OnGPUs(m.Node, m.NewGPUs)})
		}
	}
	if err := plan.Table(&b, []string{"elsewhere", "from", "planned", "runs on"}, rows); err != nil {
		return err
	}
	rows = nil
	for _, s := range o.Stayed {
		rows = append(rows, []string{s.Pod, s.From, s.Why})
	}
	if err := plan.Table(&b, []string{"stays", "on", "because"}, rows); err != nil {
		return err
	}
	_, err := w.Write(b.Bytes())
	return err
}
