package trial

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	ucli "github.com/urfave/cli/v2"

	"gnnsched/cmd/internal/web"
	"gnnsched/internal/cli"
	"gnnsched/internal/cluster/mig"
	"gnnsched/internal/exit"
	"gnnsched/internal/fatal"
	"gnnsched/internal/kuberelease"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/learn/cem"
	"gnnsched/scheduler/objective"
	"gnnsched/scheduler/policy/partition"
	"gnnsched/scheduler/policy/stock"
	"gnnsched/scheduler/sim"
)

// command runs the program with some arguments.
func command(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	app := &ucli.App{Name: "gnnsched", Commands: []*ucli.Command{Eval(), Tune("v1")}, Writer: &out, ErrWriter: &errs}
	code = cli.RunContext(t.Context(), app, append([]string{"gnnsched"}, args...))
	return code, out.String(), errs.String()
}

// Learned values are a policy.
func TestTuneMIG(t *testing.T) {
	brief := []string{"tune", "mig", "--generations", "1", "--population", "8", "--episodes", "1"}
	file := filepath.Join(t.TempDir(), "mine.json")
	if code, stdout, stderr := command(t, append(brief, "--out", file)...); code != exit.OK || !strings.Contains(stdout, "wrote "+file) {
		t.Fatalf("%d: %s%s", code, stdout, stderr)
	}
	if b, err := os.ReadFile(file); err != nil || !strings.Contains(string(b), "gnnsched tune mig --seed 1 --generations 1") {
		t.Errorf("%v: %.200s", err, b)
	}
	if code, stdout, stderr := command(t, "eval", "--scenario", "mig-uniform", "--seeds", "1", "--policies",
		"mig:fgd,mig:"+file, "--metrics", "allocation95,allocation"); code != exit.OK || !strings.Contains(stdout, "mine.json") ||
		!strings.Contains(stdout, "GPU allocation % at 95%") {
		t.Errorf("%d: %s%s", code, stdout, stderr)
	}
	for _, args := range [][]string{{"--seed", "0"}, {"--out", filepath.Join(file, "below")}} {
		if code, _, stderr := command(t, append(slices.Clone(brief), args...)...); code != exit.Usage {
			t.Errorf("%v: exit code %d: %s", args, code, stderr)
		}
	}
}

// comparison returns the default's outcomes and a second contender's, whose objective is higher by add plus wobble times the seed's number.
func comparison(add, wobble float64, unscheduled int) *eval.Comparison {
	r := &eval.Comparison{Seeds: eval.Seeds(1, 10), Results: []eval.Result{{Name: "kube-scheduler"}, {Name: tunedStock}}}
	for i := range r.Seeds {
		base := sim.Outcome{Cost: 0.1 + 0.001*float64(i), Unscheduled: 3, Waited: 10}
		mine := base
		mine.Cost += add + wobble*(float64(i)-4.5)
		mine.Unscheduled += unscheduled
		r.Results[0].Outcomes, r.Results[1].Outcomes = append(r.Results[0].Outcomes, base), append(r.Results[1].Outcomes, mine)
	}
	return r
}

func TestWarnings(t *testing.T) {
	once := comparison(0.01, 0, 0)
	once.OneWorkload = true
	for _, c := range []struct {
		name string
		r    *eval.Comparison
		want []string
	}{
		{"better", comparison(-0.01, 0.001, 0), nil},
		{"better with more left out", comparison(-0.01, 0.001, 2), []string{"worse than the default in unscheduled: 5 against 3 (p = "}},
		{"chance", comparison(-0.001, 0.01, 0), []string{"not shown to be better than the default in objective"}},
		{"the same", comparison(0, 0, 0), []string{"not shown to be better than the default in objective"}},
		{"worse", comparison(0.01, 0.001, 0), []string{"worse than the default in objective: 0.1145 against 0.1045 (p = "}},
		{"one sample", once, []string{"they are one sample. With --resample=false",
			"worse than the default in objective: 0.1145 against 0.1045 (one sample)"}},
	} {
		got := warnings(c.r)
		if len(got) != len(c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
			continue
		}
		for i, want := range c.want {
			if !strings.Contains(got[i], want) {
				t.Errorf("%s: %q, want %q", c.name, got[i], want)
			}
		}
	}
}

func TestHeadGolden(t *testing.T) {
	p := stock.Default()
	p.NoDefaultSpread = true
	h := head{
		version: "v1", scenario: eval.Scenario{Name: "made", Config: sim.Config{Objective: objective.Mix{{Term: objective.Pack{}, Weight: 1}}}},
		profile: p, command: "gnnsched tune stock --free-preferences", judged: comparison(-0.01, 0.001, 2),
	}
	fatal.Golden(t, "head.txt", strings.Replace(h.text(), kuberelease.Scheduler, "1.37", 1))
}

func brief() config {
	c := defaultConfig()
	c.MIG.Machines = 2
	c.Generations, c.Population, c.Episodes = 8, 16, 8
	return c
}

// After a moment's training, the values leave less idle than FGD, with which it begins, on workloads that it has not seen. The same
// configuration gives the same values, and another seed gives others.
func TestTrain(t *testing.T) {
	c, generations := brief(), 0
	v, weights, err := train(t.Context(), c, func(cem.Generation) { generations++ })
	fatal.If(t, err)
	if again, _, err := train(t.Context(), c, nil); err != nil || *again != *v || generations != c.Generations {
		t.Errorf("%d generations, two runs differ: %v, %v", generations, *again != *v, err)
	}
	other := c
	other.Seed = 2
	if _, w, err := train(t.Context(), other, nil); err != nil || slices.Equal(w, weights) {
		t.Errorf("another seed gives the same weights: %v", err)
	}
	var ours, fgd float64
	first := make([]float64, len(mig.Features))
	first[0] = 1 // FGD
	for seed := uint64(1 << 40); seed < 1<<40+60; seed++ {
		for values, sum := range map[*partition.Values]*float64{v: &ours, partition.Weighted(first): &fgd} {
			loss := fatal.Value(c.loss(t.Context(), values, seed))(t)
			*sum += loss / 60
		}
	}
	if ours >= fgd {
		t.Errorf("%.4f is idle, with FGD %.4f", ours, fgd)
	}
	t.Logf("%.4f is idle, with FGD %.4f", ours, fgd)
}

func TestTrainRefuses(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := train(ctx, brief(), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	for _, edit := range []func(*config){func(c *config) { c.Seed = 0 }, func(c *config) { c.Population = 3 },
		func(c *config) { c.Generations = 0 }} {
		c := brief()
		edit(&c)
		if _, _, err := train(t.Context(), c, nil); err == nil {
			t.Errorf("%+v: no error", c)
		}
	}
}

// The race counts who waits, and shows the first difference once the learned scheduler has reached it.
func TestRace(t *testing.T) {
	s, first, err := web.Contest(3, learnedProfile)
	fatal.If(t, err)
	if first == nil || first.Decision < 2 || first.Node == first.Other || !strings.HasSuffix(first.Sandbox, fmt.Sprint("&seed=3&at=", first.Decision)) {
		t.Fatalf("the first difference is %+v", first)
	}
	var out, said bytes.Buffer
	app := ucli.NewApp()
	app.Writer, app.ErrWriter = &out, &said
	r := &race{c: ucli.NewContext(app, nil, nil), first: first, sides: []side{{}, {shown: web.Side{Name: learnedProfile}}}}
	play := func(side, decisions int) *sim.Env {
		env := fatal.Value(sim.New(s.Config))(t)
		fatal.If(t, env.Reset(3))
		for k := 0; k < decisions && !env.Done(); k++ {
			arrival := env.Next()
			env.Step(0)
			r.add(side, env, arrival)
		}
		return env
	}
	env := play(0, 1000)
	play(1, first.Decision-1)
	if r.snapshot().First != nil {
		t.Errorf("the first difference is shown before: %+v", r.snapshot().First)
	}
	r.sides[1].shown.Steps = nil
	play(1, first.Decision)
	if r.snapshot().First == nil || strings.Count(said.String(), "They differ first in decision") != 1 {
		t.Errorf("said %q", &said)
	}
	got := r.snapshot().Sides[0]
	last := got.Steps[len(got.Steps)-1]
	if want := env.Outcome(); int(last[0]) != want.Arrived || len(got.Waiting) != want.Unscheduled || int(last[2]) != want.Unscheduled ||
		want.Unscheduled == 0 {
		t.Errorf("%v at the end, %d wait; want %+v", last, len(got.Waiting), want)
	}
}
