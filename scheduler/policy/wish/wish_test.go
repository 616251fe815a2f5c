package wish

import (
	"math"
	"strings"
	"testing"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/feature"
	"gnnsched/scheduler/objective"
)

// both is what a network that was trained on every mix of balance and energy says.
var both = []checkpoint.Wish{{Term: "balance", Share: 0.5, Most: 1}, {Term: "energy", Share: 0.5, Most: 1}}

func TestEveryTermIsAnObjective(t *testing.T) {
	for _, name := range Terms() {
		if _, err := objective.Parse(name); err != nil {
			t.Error(err)
		}
	}
}

func TestParse(t *testing.T) {
	for text, want := range map[string]feature.Wishes{
		"balance":                {1, 0, 0},
		"energy=0.0001":          {0, 1, 0},
		"balance,energy=2.5":     {0.5, 0.5, 0},
		"balance=1,energy=7.5":   {0.25, 0.75, 0},
		"balance=1e308,energy":   {1, 0, 0},
		"energy=1e308,balance=1": {0, 1, 0},
	} {
		if w, err := Parse(text, both); err != nil || !Near(w, want) {
			t.Errorf("%s: %v, %v, want %v", text, w, err, want)
		}
	}
	some := []checkpoint.Wish{{Term: "balance", Share: 0.5, Least: 0.5, Most: 1}, {Term: "energy", Share: 0.5, Most: 0.5}}
	for _, c := range []struct {
		text  string
		known []checkpoint.Wish
		want  string
	}{
		{"pack", both, "does not know pack; it knows balance, energy"},
		{"zones", both, "networks cannot read the term zones; there are balance, energy, pack; the network knows balance, energy"},
		{"nonsense", both, `no term is called "nonsense"`},
		{"balance=-1", both, "must be a finite number over 0"},
		{"pack=1e308", both, "too small or too large"},
		{"energy=0x1p-1074", both, "too small or too large"},
		{"balance", nil, "was trained for one objective"},
		{"balance", []checkpoint.Wish{{Term: "balance", Share: 1, Least: 1, Most: 1}}, "was trained for one objective"},
		{"balance,energy=7.5", some, "the share of balance is 0.25, and the network was trained on 0.5 to 1"},
	} {
		if _, err := Parse(c.text, c.known); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.text, err, c.want)
		}
	}
}

// An objective has the shares that Mix made it from.
func TestMixHasTheShares(t *testing.T) {
	for seed := range uint64(500) {
		w := Draw(seed, Terms())
		again, err := Of(Mix(w))
		if err != nil || !Near(w, again) {
			t.Fatalf("%v became %v, %v", w, again, err)
		}
	}
}

// Two draws in five are a single term; the others are spread over all mixes; and only the named terms have a share.
func TestDraw(t *testing.T) {
	const draws = 20_000
	var single int
	var mean, low float64
	for seed := range uint64(draws) {
		w := Draw(seed, []string{"energy", "balance"})
		if w[packTerm()] != 0 || math.Abs(float64(w[0]+w[1]-1)) > 1e-6 {
			t.Fatalf("shares %v", w)
		}
		if w != Draw(seed, []string{"energy", "balance"}) {
			t.Fatal("the same seed draws another objective")
		}
		switch {
		case w[0] == 0 || w[1] == 0:
			single++
		case w[0] < 0.25:
			low++
		}
		mean += float64(w[0]) / draws
	}
	if part := float64(single) / draws; math.Abs(part-corners) > 0.01 {
		t.Errorf("%v of the draws are a single term", part)
	}
	if part := low / draws; math.Abs(part-0.25*(1-corners)) > 0.01 || math.Abs(mean-0.5) > 0.01 {
		t.Errorf("%v of the draws have a share of balance under a quarter; its mean is %v", part, mean)
	}
}

func packTerm() int { return indexOf("pack") }

// Whatever the text, the shares are finite, 0 or more, of known terms, and add up to 1.
func FuzzParse(f *testing.F) {
	for _, text := range []string{"balance=1,energy=0.3", "energy", "", ",", "balance=NaN", "balance=1e-320,energy=1e308",
		"balance=0x1p-1074", "\x00=1", "energy=+Inf", "pack=1e308", "energy=0x1p-1074"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		w, err := Parse(text, both)
		if err != nil {
			return
		}
		var sum float64
		for i, share := range w {
			if !(share >= 0 && share <= 1) || i == packTerm() && share != 0 {
				t.Fatalf("%q: shares %v", text, w)
			}
			sum += float64(share)
		}
		if math.Abs(sum-1) > 1e-5 {
			t.Fatalf("%q: shares %v", text, w)
		}
	})
}
