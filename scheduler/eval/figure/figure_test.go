package figure

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"gnnsched/internal/golden"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/eval/headline"
	"gnnsched/scheduler/objective"
	"gnnsched/scheduler/sim"
)

func made(policies, seeds int) *eval.Comparison {
	rng := rand.New(rand.NewPCG(1, 2))
	c := &eval.Comparison{
		Scenario: eval.Scenario{Name: "made", Config: sim.Config{Objective: objective.Mix{{Term: objective.Balance{}, Weight: 1}}}},
		Seeds:    eval.Seeds(1, seeds),
	}
	for k, name := range []string{"kube-scheduler", "best-fit", "gnn"}[:policies] {
		r := eval.Result{Name: name}
		for range seeds {
			r.Outcomes = append(r.Outcomes, sim.Outcome{Cost: 0.1 + 0.05*float64(k) + 0.02*rng.Float64(), Unscheduled: rng.IntN(20)})
		}
		c.Results = append(c.Results, r)
	}
	return c
}

func TestSVGGolden(t *testing.T) {
	svg, err := SVG(made(3, 10))
	if err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "made.svg", string(svg))
}

func TestHeadlineGolden(t *testing.T) {
	networks := made(3, 10)
	networks.Results[0].Kind, networks.Results[1].Kind, networks.Results[2].Kind = eval.Baseline, eval.Baseline, eval.Network
	for i := range networks.Results {
		for k := range networks.Results[i].Outcomes {
			networks.Results[i].Outcomes[k].MeanCost = networks.Results[i].Outcomes[k].Cost
		}
	}
	other := *networks
	other.Scenario.Name = "other"
	other.Seeds = other.Seeds[:5]
	other.Results = nil
	for _, r := range networks.Results {
		r.Outcomes = r.Outcomes[:5]
		other.Results = append(other.Results, r)
	}
	h := headline.Of([]*eval.Comparison{networks, &other})
	svg, err := Headline(h)
	if err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "headline.svg", string(svg))
	if _, err := Headline(headline.Headline{}); err == nil {
		t.Error("a figure of nothing")
	}
}

// A figure is well-formed XML, names every policy and has a dot for each seed in each panel. This also
// holds for one policy with one seed, and for outcomes that are all equal.
func TestSVG(t *testing.T) {
	flat := made(2, 3)
	for i := range flat.Results {
		for k := range flat.Results[i].Outcomes {
			flat.Results[i].Outcomes[k] = sim.Outcome{}
		}
	}
	for name, c := range map[string]*eval.Comparison{"usual": made(3, 10), "one": made(1, 1), "flat": flat} {
		svg, err := SVG(c)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		d := xml.NewDecoder(bytes.NewReader(svg))
		for {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		for _, r := range c.Results {
			if !strings.Contains(string(svg), ">"+r.Name+"<") {
				t.Errorf("%s: %s is not named", name, r.Name)
			}
		}
		if strings.Contains(string(svg), "NaN") {
			t.Errorf("%s: it holds NaN", name)
		}
		again, err := SVG(c)
		if err != nil || !bytes.Equal(svg, again) {
			t.Errorf("%s: drawn again it differs, %v", name, err)
		}
	}
}
