package trial

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	ucli "github.com/urfave/cli/v2"

	"gnnsched/cmd/internal/web"
	"gnnsched/internal/fatal"
	"gnnsched/scheduler/sim"
)

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
