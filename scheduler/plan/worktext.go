package plan

import (
	"bytes"
	"fmt"
	"io"
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
	if err := Table(&b, []string{"profile", "wait on all", "without a node", "fewest workers", "at least", "by", "wait", "without a node", "replays"}, rows); err != nil {
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
