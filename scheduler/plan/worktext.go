package plan

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"gnnsched/scheduler/replay"
)

// WriteText writes the fewest nodes for people.
func (f Fewest) WriteText(w io.Writer) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "The work of %s to %s on the fewest of %d recorded workers.", f.From.Format(time.RFC3339),
		f.To.Format(time.RFC3339), f.Workers)
	if f.Control > 0 {
		fmt.Fprintf(&b, " Control-plane nodes that stay: %d.", f.Control)
	}
	fmt.Fprintf(&b, "\nTarget: %g %% of the pods wait %v at most, and no more pods are without a node than on all workers.\n",
		f.Percentile, seconds(f.Wait))
	var rows [][]string
	for _, p := range f.Profiles {
		rows = append(rows, p.row())
	}
	if err := Table(&b, []string{"profile", "wait on all", "without a node", "fewest workers", "at least", "by", "wait", "without a node",
		"replays"}, rows); err != nil {
		return err
	}
	fmt.Fprintln(&b)
	for _, p := range f.Profiles {
		if p.Holds {
			fmt.Fprintf(&b, "%s keeps: %s\n", plain(p.Profile), plain(strings.Join(p.Keep, ", ")))
		} else if p.Evaluations > 0 {
			fmt.Fprintf(&b, "%s: all workers together miss the target; give a longer --wait or a lower --percentile\n", plain(p.Profile))
		}
		writeCut(&b, p.Profile, p.Ended)
	}
	writeNotes(&b, f.Lacks, f.Notes)
	_, err := w.Write(b.Bytes())
	return err
}

func (p FewestOf) row() []string {
	line := []string{
		plain(p.Profile), seconds(p.All.Wait).String(), fmt.Sprint(p.All.Unplaced), "-", "-", "-", "-", "-", fmt.Sprint(p.Evaluations),
	}
	if p.Evaluations == 0 {
		line[1], line[2] = "-", "-"
	}
	if p.Holds {
		copy(line[3:], []string{fmt.Sprint(len(p.Keep)), fmt.Sprint(p.Bound), p.By, seconds(p.With.Wait).String(), fmt.Sprint(p.With.Unplaced)})
	}
	return line
}

// seconds returns a time, rounded to milliseconds.
func seconds(s float64) time.Duration {
	return time.Duration(s * float64(time.Second)).Round(time.Millisecond)
}

func writeCut(b *bytes.Buffer, profile string, e Ended) {
	if e.Cut != "" {
		fmt.Fprintf(b, "%s: the search ended early, because %s; the result is the best so far\n", plain(profile), e.Cut)
	}
}

func writeNotes(b *bytes.Buffer, lacks []replay.Lack, notes []string) {
	for _, l := range lacks {
		fmt.Fprintf(b, "note: the replay lacks %s (%d pods)\n", plain(l.What), l.Pods)
	}
	for _, n := range notes {
		fmt.Fprintf(b, "note: %s\n", plain(n))
	}
}

// WriteText writes the mixes for people.
func (m Mixes) WriteText(w io.Writer) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "The work of %s to %s on the cheapest mix of %d types of nodes.", m.From.Format(time.RFC3339),
		m.To.Format(time.RFC3339), len(m.Types))
	if m.Control > 0 {
		fmt.Fprintf(&b, " Control-plane nodes that stay: %d.", m.Control)
	}
	fmt.Fprintf(&b, "\nTarget: %g %% of the pods wait %v at most, and no more pods are without a node than on the recorded nodes.\n",
		m.Percentile, seconds(m.Wait))
	if m.Paid != nil {
		fmt.Fprintf(&b, "The %d recorded workers cost %s an hour.\n", m.Workers, money(*m.Paid))
	}
	var rows [][]string
	for _, t := range m.Types {
		rows = append(rows, []string{
			plain(t.Name), money(t.Price), fmt.Sprintf("%g", float64(t.MilliCPU)/1000), fmt.Sprintf("%.1f", float64(t.Memory)/(1<<30)),
			fmt.Sprint(t.GPU), fmt.Sprint(t.Pods), fmt.Sprint(t.Limit),
		})
	}
	if err := Table(&b, []string{"type", "price/h", "CPU", "GiB", "GPUs", "pods", "nodes at most"}, rows); err != nil {
		return err
	}
	rows = nil
	for _, p := range m.Profiles {
		rows = append(rows, p.row())
	}
	if err := Table(&b, []string{"profile", "cheapest mix", "price/h", "at least", "by", "wait", "without a node", "replays"},
		rows); err != nil {
		return err
	}
	fmt.Fprintln(&b)
	for _, p := range m.Profiles {
		if p.Why != "" {
			fmt.Fprintf(&b, "%s: %s\n", plain(p.Profile), plain(p.Why))
		}
		writeCut(&b, p.Profile, p.Ended)
	}
	writeNotes(&b, m.Lacks, m.Notes)
	_, err := w.Write(b.Bytes())
	return err
}

func (p MixOf) row() []string {
	line := []string{plain(p.Profile), "none was found", "-", "-", plain(p.By), "-", "-", fmt.Sprint(p.Evaluations)}
	if p.Bound > 0 || p.Found {
		line[3] = money(p.Bound)
	}
	if p.Found {
		line[1], line[2], line[5], line[6] = plain(mixText(p.Mix)), money(p.Price), seconds(p.With.Wait).String(), fmt.Sprint(p.With.Unplaced)
	}
	return line
}

// mixText lists the types of a mix with their numbers of nodes.
func mixText(mix map[string]int) string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(mix)) {
		out = append(out, fmt.Sprintf("%d %s", mix[name], name))
	}
	if len(out) == 0 {
		return "no nodes"
	}
	return strings.Join(out, ", ")
}

// money writes a price with enough digits to distinguish small prices.
func money(x float64) string { return fmt.Sprintf("%.4f", x) }
