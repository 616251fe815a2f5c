package trial

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	ucli "github.com/urfave/cli/v2"

	"gnnsched/gnn/feature"
	"gnnsched/internal/cli"
	"gnnsched/internal/exit"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/eval/contender"
	"gnnsched/scheduler/eval/front"
	"gnnsched/scheduler/objective"
	"gnnsched/scheduler/policy/wish"
)

// frontFlag is the name of the flag that selects a front.
const frontFlag = "front"

const singleFlag = "single"

// frontFlags returns --front and the flag that goes with it.
func frontFlags() []ucli.Flag {
	return []ucli.Flag{
		&ucli.StringFlag{Name: frontFlag, Category: "with --front", Usage: "compare along the Pareto front of two `TERMS`, such as balance,energy: " +
			"networks of many objectives, policies made for one mix, and baselines"},
		&ucli.StringSliceFlag{Name: singleFlag, Category: "with --front", Usage: "add a policy made for one mix, as `MIX:FILE`, " +
			"such as balance+energy=2.5:half.safetensors; others of the mix are compared with the first; repeatable"},
	}
}

// shares are the weights of the second term in the five mixes.
var shares = []float32{0, 0.25, 0.5, 0.75, 1}

// baselines are the default of --policies.
var baselines = []string{contender.Kubernetes, "best-fit"}

// runFront is eval --front, on the one scenario of --scenario.
func runFront(c *ucli.Context) error {
	if _, err := cli.Format(c, frontFormats); err != nil {
		return exit.Usagef("--%s: %w", frontFlag, err)
	}
	err := refuse(c, "--"+frontFlag+" and --%s exclude each other", "threshold", "from", "all", "metrics", "live", "objective", "resample")
	if err != nil {
		return err
	}
	p, err := frontPlan(c)
	if err != nil {
		return err
	}
	return play(c, p.Seeds, func(progress eval.Progress) (*front.Front, error) { return front.Run(c.Context, p, progress) },
		func(f *front.Front) error { return writeFront(c, f) })
}

func writeFront(c *ucli.Context, f *front.Front) error {
	if c.String("output") == "json" {
		return cli.JSON(c.App.Writer, f)
	}
	return f.Write(c.App.Writer, c.String("output") == "markdown")
}

var frontFormats = []string{"table", "markdown", "json"}

// frontPlan reads the flags.
func frontPlan(c *ucli.Context) (p front.Plan, err error) {
	if p.Seeds, err = seedsOf(c, 2); err != nil {
		return p, err
	}
	names := []string{"family-power"}
	if c.IsSet("scenario") {
		names = c.StringSlice("scenario")
	}
	found, err := scenarios(c, names...)
	if err != nil {
		return p, err
	}
	if len(found) != 1 {
		return p, exit.Usagef("--%s takes one scenario, not %d", frontFlag, len(found))
	}
	if err := preferFlag(c, found); err != nil {
		return p, err
	}
	p.Scenario = found[0]
	if p.Mixes, p.Terms, err = mixes(c.String(frontFlag)); err != nil {
		return p, exit.New(exit.Usage, fmt.Errorf("--%s: %w", frontFlag, err), "for example --front balance,energy")
	}
	compared := c.StringSlice("policies")
	if len(compared) == 0 {
		compared = baselines
	}
	others, err := contender.List(compared, c.StringSlice("checkpoint"))
	if err != nil {
		return p, err
	}
	if p.Entrants, err = singles(c, &p); err != nil {
		return p, err
	}
	more, err := entrants(p, others)
	p.Entrants = append(more, p.Entrants...)
	return p, err
}

// mixes returns the five mixes of two terms.
func mixes(text string) (out []objective.Mix, terms [2]objective.Term, err error) {
	m, err := objective.Parse(text)
	if err != nil {
		return nil, terms, err
	}
	if len(m) != 2 {
		return nil, terms, fmt.Errorf("%q has %d terms, want two", text, len(m))
	}
	if _, err := wish.Of(m); err != nil {
		return nil, terms, err
	}
	known := wish.Terms()
	a, b := slices.Index(known, m[0].Term.Name()), slices.Index(known, m[1].Term.Name())
	for _, s := range shares {
		var w feature.Wishes
		w[a], w[b] = 1-s, s
		out = append(out, wish.Mix(w))
	}
	return out, [2]objective.Term{m[0].Term, m[1].Term}, nil
}

// singles returns the policies of --single, and a greedy policy for each mix.
func singles(c *ucli.Context, p *front.Plan) (out []front.Entrant, err error) {
	for _, argument := range c.StringSlice(singleFlag) {
		text, file, given := strings.Cut(argument, ":")
		m, err := objective.Parse(strings.ReplaceAll(text, "+", ","))
		if err != nil || !given {
			return nil, exit.New(exit.Usage, fmt.Errorf("--%s %q: want MIX:FILE: %w", singleFlag, argument, errors.Join(err)),
				"for example --single balance+energy=2.5:half.safetensors")
		}
		if m, err = among(m, p.Mixes); err != nil {
			return nil, exit.New(exit.Usage, fmt.Errorf("--%s %q: %w", singleFlag, argument, err), "")
		}
		list, err := contender.List([]string{contender.Kubernetes}, []string{file})
		if err != nil {
			return nil, err
		}
		out = append(out, front.Entrant{Contender: list[1], Group: front.Single, Mix: m})
	}
	for _, m := range p.Mixes {
		x, err := contender.Named("greedy:" + strings.ReplaceAll(m.Name(), ",", "+"))
		if err != nil {
			return nil, err
		}
		x.Name = "greedy"
		out = append(out, front.Entrant{Contender: x, Group: front.Greedy, Mix: m})
	}
	return out, nil
}

// among returns the mix with the shares of m.
func among(m objective.Mix, mixes []objective.Mix) (objective.Mix, error) {
	want, err := wish.Of(m)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, x := range mixes {
		have, err := wish.Of(x)
		if err != nil {
			return nil, err
		}
		if wish.Near(have, want) {
			return x, nil
		}
		names = append(names, x.Name())
	}
	return nil, fmt.Errorf("%s is none of the mixes: %s", m.Name(), strings.Join(names, "; "))
}

// entrants returns a network of many objectives once for each mix, and other policies once.
func entrants(p front.Plan, others []eval.Contender) (out []front.Entrant, err error) {
	for _, x := range others {
		if x.Wish == nil {
			out = append(out, front.Entrant{Contender: x, Group: front.Baseline})
			continue
		}
		for _, m := range p.Mixes {
			told, err := x.Wish(m)
			if err != nil {
				return nil, exit.New(exit.Usage, fmt.Errorf("%s: %w", x.Name, err), "")
			}
			out = append(out, front.Entrant{Contender: told, Group: front.Conditioned, Mix: m})
		}
	}
	return out, nil
}
