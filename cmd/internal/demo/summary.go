package demo

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/olekukonko/tablewriter"
	"github.com/olekukonko/tablewriter/tw"

	"gnnsched/internal/choice"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/server"
)

// write writes the results of a part.
func (d *director) write(w io.Writer, usual *eval.Comparison) error {
	learned, base := *d.results[d.part.learned], *d.results[server.DefaultProfile]
	if err := d.part.writeResults(w, d.config, learned, base); err != nil {
		return err
	}
	if err := d.part.writeUsual(w, usual); err != nil {
		return err
	}
	if d.explanation == nil {
		return nil
	}
	return d.explanation.write(w)
}

// columns is the width of the text.
const columns = 80

// paragraph writes text in lines of at most columns characters. It breaks at spaces only, because names
// of nodes have hyphens. A writer that fails shows at the next table.
func paragraph(w io.Writer, format string, a ...any) {
	line := ""
	for _, word := range strings.Fields(fmt.Sprintf(format, a...)) {
		if line != "" && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > columns {
			fmt.Fprintln(w, line)
			line = ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	fmt.Fprintln(w, line)
}

// newTable returns a table whose first column holds text and whose others hold figures.
func newTable(w io.Writer, header ...string) *tablewriter.Table {
	align := tw.Alignment{tw.AlignLeft}
	for range header[1:] {
		align = append(align, tw.AlignRight)
	}
	t := tablewriter.NewTable(w, tablewriter.WithHeaderAutoFormat(tw.Off), tablewriter.WithAlignment(align))
	t.Header(header)
	return t
}

func render(t *tablewriter.Table) error {
	if err := t.Render(); err != nil {
		return fmt.Errorf("write the results: %w", err)
	}
	return nil
}

// writeResults writes both schedulers' figures side by side, and which of them were won.
func (p part) writeResults(w io.Writer, c config, learned, base result) error {
	fmt.Fprintln(w)
	paragraph(w, "%s: %s. This run: %s, each through both schedulers.", p.title, p.scenario.About, seedsOf(c))
	t := newTable(w, "", learned.scheduler, base.scheduler, "change")
	_ = t.Append("pods", fmt.Sprint(int(learned.sum(podsOf))), fmt.Sprint(int(base.sum(podsOf))), "") // appending to memory
	named := map[judgement][]string{}
	for _, m := range p.measures {
		a, b := m.of(learned), m.of(base)
		verdict, change := m.judge(a, b)
		named[verdict] = append(named[verdict], m.name)
		_ = t.Append(m.name, m.format(a), m.format(b), change)
	}
	if err := render(t); err != nil {
		return err
	}
	paragraph(w, "Won: %s. Not won: %s. %s", names(named[won]), names(append(named[lost], named[same]...)), p.note)
	if learned.fallbacks > 0 {
		paragraph(w, "In %.0f decisions the network failed and upstream's scoring decided; the log says why.", learned.fallbacks)
	}
	return nil
}

func podsOf(r round) float64 { return float64(r.pods) }

// seedsOf names the workloads on the cluster.
func seedsOf(c config) string {
	if c.Seeds == 1 {
		return fmt.Sprintf("one workload (seed %d)", c.Seed)
	}
	return fmt.Sprintf("%d workloads (seeds %d to %d)", c.Seeds, c.Seed, c.Seed+uint64(c.Seeds)-1)
}

func names(list []string) string { return cmp.Or(strings.Join(list, "; "), "nothing") }

// writeUsual writes the typical result in the simulator, and the command that shows more of it.
func (p part) writeUsual(w io.Writer, c *eval.Comparison) error {
	fmt.Fprintln(w)
	paragraph(w, "Typical: %d other workloads in the simulator. %s scores there as %s does; %s", len(c.Seeds),
		baseline, server.DefaultProfile, p.legend)
	first := p.usually[0]
	header := choice.Names(p.usually, func(f figure) string { return f.name })
	t := newTable(w, slices.Concat([]string{"policy"}, header, []string{"better in"})...)
	for k, r := range c.Results {
		row := []string{r.Name}
		for _, f := range p.usually {
			row = append(row, f.format(f.mean(r)))
		}
		better := ""
		if k > 0 {
			better = fmt.Sprintf("%d of %d", first.better(r, c.Results[0]), len(c.Seeds))
		}
		_ = t.Append(append(row, better)) // appending to memory
	}
	if err := render(t); err != nil {
		return err
	}
	fmt.Fprintf(w, "More of it: gnnsched eval --all --scenario %s --seed %d --seeds %d \\\n            --policies %s\n",
		p.scenario.Name, c.Seeds[0], len(c.Seeds), strings.Join(p.policies(), ","))
	return nil
}

// mean returns the mean of the figure over the seeds.
func (f figure) mean(r eval.Result) float64 {
	sum := 0.0
	for _, o := range r.Outcomes {
		sum += f.of(o)
	}
	return sum / float64(len(r.Outcomes))
}

// better returns the number of seeds on which a result is better than another.
func (f figure) better(r, base eval.Result) (n int) {
	for i, o := range r.Outcomes {
		a, b := f.of(o), f.of(base.Outcomes[i])
		if a != b && (a > b) == f.more {
			n++
		}
	}
	return n
}
