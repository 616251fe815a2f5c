package canary

import (
	"fmt"
	"io"
	"sync"
	"text/tabwriter"
	"time"
)

// Reports collects the canaries of a process, to say at its end how their pods fared beside the rest. A nil one collects nothing.
// It is safe for concurrent use.
type Reports struct {
	mu     sync.Mutex
	splits []*Split
}

// Add adds a canary.
func (r *Reports) Add(c *Split) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.splits = append(r.splits, c)
}

// WriteText writes a report of each canary, its end first. It writes nothing without any.
func (r *Reports) WriteText(w io.Writer) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.splits {
		if err := c.writeText(w); err != nil {
			return err
		}
	}
	return nil
}

// totals counts what happened while the canary ran. Its groups are as in block. Counts of a Split are guarded by mu.
type totals struct {
	results [2]map[Result]int
	times   [2]map[int]int // attempts by bucket
	ended   string         // why the canary stopped; empty if nothing stopped it
	begun   bool
}

func (t *totals) settled(g Group, r Result) {
	i := index(g)
	if t.results[i] == nil {
		t.results[i] = map[Result]int{}
	}
	t.results[i][r]++
}

func (t *totals) attempted(g Group, took time.Duration) {
	i := index(g)
	if t.times[i] == nil {
		t.times[i] = map[int]int{}
	}
	t.times[i][bucketOf(took)]++
}

// pods returns how many pods of a group were counted, and how many of their placements failed. A pod that is lost after it was bound is
// counted once.
func (t *totals) pods(group int) (all, bad int) {
	for r, n := range t.results[group] {
		if r != lost {
			all += n
		}
		if r != Bound {
			bad += n
		}
	}
	return all, bad
}

// within returns the time within which a share of a group's attempts ended; 0 without attempts.
func (t *totals) within(group int, share float64) time.Duration {
	all, highest := 0, 0
	for b, n := range t.times[group] {
		all, highest = all+n, max(highest, b)
	}
	if all == 0 {
		return 0
	}
	left := share * float64(all)
	for b := range highest {
		if left -= float64(t.times[group][b]); left <= 0 {
			return timeOf(b)
		}
	}
	return timeOf(highest)
}

// few is the number of the canary's pods below which a report says that they are too few to tell.
const few = 100

// verdict says how the canary ended. The caller holds the lock.
func (c *Split) verdict() string {
	pods, _ := c.totals.pods(0)
	switch {
	case c.totals.ended != "":
		return "STOPPED: " + c.totals.ended
	case !c.totals.begun:
		return "NOT BEGUN"
	case pods < few:
		return fmt.Sprintf("TOO FEW PODS TO TELL: %d of the share, want %d", pods, few)
	}
	return "NOT STOPPED: its pods fared no worse than is tolerated"
}

// writeText writes how the canary's pods fared beside the rest.
func (c *Split) writeText(w io.Writer) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, err := fmt.Fprintf(w, "%s with a share of %.4g %% of the pods, by %s\n\n%s\n\n",
		c.profile, 100*c.args.Of, c.args.By, c.verdict()); err != nil {
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	of := func(title string, cell func(group int) string) {
		fmt.Fprintf(t, "%s\t%s\t%s\n", title, cell(0), cell(1))
	}
	fmt.Fprintln(t, "pods while the share ran\tshare\trest")
	of("  placed or failed", func(g int) string { all, _ := c.totals.pods(g); return fmt.Sprint(all) })
	of("  failed", func(g int) string {
		all, bad := c.totals.pods(g)
		return fmt.Sprintf("%d (%.2f %%)", bad, 100*float64(bad)/float64(max(all, 1)))
	})
	for _, x := range []struct {
		title string
		of    Result
	}{
		{"    decided by upstream's scores after a failure", Fallback}, {"    not reserved or not bound", NotBound},
		{"    refused or evicted by the kubelet", lost},
	} {
		of(x.title, func(g int) string { return fmt.Sprint(c.totals.results[g][x.of]) })
	}
	for _, x := range []struct {
		title string
		share float64
	}{{"time of an attempt, median", 0.5}, {"  99 %", 0.99}} {
		of(x.title, func(g int) string {
			if d := c.totals.within(g, x.share); d > 0 {
				return fmt.Sprintf("%.2f ms", 1000*d.Seconds())
			}
			return "-"
		})
	}
	return t.Flush()
}
