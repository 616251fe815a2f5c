package demo

import (
	"fmt"
	"io"

	"github.com/dustin/go-humanize"

	"gnnsched/internal/cluster"
	"gnnsched/scheduler/server"
)

// shownBest is the number of the network's best nodes in the table.
const shownBest = 3

// write writes the decision: a table of the best nodes, and what distinguishes them in sentences.
func (e *explanation) write(w io.Writer) error {
	r := e.pod.Requests
	fmt.Fprintln(w)
	o := e.outlook
	paragraph(w, "One decision, after %s placed %.0f%% of the first workload: pod %s requests %s CPU and %s, and %d nodes have room. "+
		"%s By the scores in this state, %s chooses the more even node for %d of them, the default scoring for %d, "+
		"and for %d it makes no difference.",
		server.DefaultProfile, 100*explainAt, e.pod.Name, cluster.FormatCPU(r.MilliCPU), cluster.FormatMemory(r.Memory), len(e.nodes), e.why(),
		e.scheduler, o.more, o.less, o.same)
	t := newTable(w, "node", e.scheduler+"'s score", "default's", "CPU", "memory", "mean std")
	for i, c := range e.nodes {
		if i >= shownBest && c.node != e.chosen && c.node != e.other {
			continue
		}
		_ = t.Append(c.node, fmt.Sprintf("%.4f", c.score), whole(float64(c.byDefault)), // appending to memory
			change(c.before.cpu, c.then.cpu), change(c.before.memory, c.then.memory), decimals(c.imbalance))
	}
	if err := render(t); err != nil {
		return err
	}
	paragraph(w, "%s", e.sentences())
	return nil
}

func change(from, to float64) string { return fmt.Sprintf("%.0f%% → %.0f%%", 100*from, 100*to) }

// sentences describe the choice and its reason.
func (e *explanation) sentences() string {
	chosen, other := e.of(e.chosen), e.of(e.other)
	text := fmt.Sprintf("%s chose %s, which has its %s score. %s took %s", e.scheduler, e.chosen, ordinal(e.rank(e.chosen)),
		server.DefaultProfile, e.other)
	if other.byDefault > chosen.byDefault {
		text += fmt.Sprintf(", because it scores each node by itself, by how much is free and by how well CPU and memory balance there: "+
			"%s has %.0f points, and %s %.0f", e.other, other.byDefault, e.chosen, chosen.byDefault)
	}
	text += fmt.Sprintf(". The network compares all nodes, and rates %s %s of %d. ", e.other, ordinal(e.rank(e.other)), len(e.nodes))
	text += fmt.Sprintf("The mean standard deviation of the nodes' CPU and memory, %s before, becomes %s with its choice and %s "+
		"with the default's.", decimals(e.imbalance), decimals(chosen.imbalance), decimals(other.imbalance))
	if e.gain() <= 0 {
		text += " At once that is no more even: the network was trained for the whole workload, not for the next step."
	}
	return text
}

// why returns the reason for this decision.
func (e *explanation) why() string {
	among := fmt.Sprintf("the next %d", e.outlook.more+e.outlook.less+e.outlook.same)
	if e.gain() > 0 {
		return "It was chosen from " + among + " pods because it shows where evenness is won."
	}
	return "None of those tried from " + among + " pods shows where evenness is won."
}

// ordinal returns "best", "2nd", "3rd", "4th", … .
func ordinal(rank int) string {
	if rank == 1 {
		return "best"
	}
	return humanize.Ordinal(rank)
}
