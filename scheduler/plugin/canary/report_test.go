package canary

import (
	"math"
	"strings"
	"testing"
	"time"
)

// ran returns a canary that has seen pods, of which every bad-th failed, and attempts.
func ran(pods, bad int) *Split {
	c := &Split{profile: "default-scheduler", args: Args{Of: 0.05, By: ByOwner}, ended: make(chan string, 1)}
	c.seen = comparison{args: c.args}
	c.seen.args.Failures, c.seen.args.Latency.Duration = 0.9, time.Hour // nothing stops it
	c.share.Store(math.Float64bits(c.args.Of))
	c.totals.begun = true
	for i := range pods {
		for _, g := range []Group{Learned, Rest} {
			r := Bound
			if g == Learned && i%bad == 0 {
				r = Fallback
			}
			c.settled(member{g, uint64(i)*2 + 1}, r)
			c.attempted(g, uint64(i)*2+1, time.Duration(1+i%100)*time.Millisecond)
		}
	}
	c.settled(member{Rest, 1}, lost)
	return c
}

// The report says first how the share ended, and then how its pods fared beside the rest.
func TestReport(t *testing.T) {
	stopped := ran(200, 50)
	stopped.totals.ended = "4 of the last 200 pods of the canary failed"
	for name, c := range map[string]struct {
		split *Split
		says  []string
	}{
		"to the end": {ran(200, 50), []string{"default-scheduler with a share of 5 % of the pods, by owner\n\nNOT STOPPED",
			"placed or failed 200 200\n", "failed 4 (2.00 %) 1 (0.50 %)\n", "after a failure 4 0\n", "evicted by the kubelet 0 1\n", "median 5",
			"99 % 99"}},
		"few":       {ran(20, 50), []string{"TOO FEW PODS TO TELL: 20 of the share, want 100"}},
		"stopped":   {stopped, []string{"STOPPED: 4 of the last 200 pods of the canary failed"}},
		"not begun": {&Split{profile: "p", args: Args{Of: 1, By: ByOwner}}, []string{"NOT BEGUN", "99 % - -"}},
	} {
		var all Reports
		all.Add(c.split)
		var b strings.Builder
		if err := all.WriteText(&b); err != nil {
			t.Fatal(err)
		}
		text := b.String()
		for strings.Contains(text, "  ") {
			text = strings.ReplaceAll(text, "  ", " ")
		}
		for _, s := range c.says {
			if !strings.Contains(text, s) {
				t.Errorf("%s: the report lacks %q:\n%s", name, s, b.String())
			}
		}
	}
	var none *Reports
	none.Add(stopped)
}
