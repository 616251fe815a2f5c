package contender

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"gnnsched/internal/cluster"
	"gnnsched/internal/exit"
	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/moves"
	"gnnsched/scheduler/objective"
	"gnnsched/scheduler/sim"
)

// defragPrefix begins defrag=SHARE/TIME:POLICY: POLICY, and at each TIME up to SHARE of the running pods move.
const defragPrefix = "defrag="

// evaluations bounds a search. On 1,213 nodes with 6,700 pods it needs 200,000 to 400,000.
const evaluations = 20_000_000

// defrag says when how many pods move.
type defrag struct {
	share float64 // of the running pods
	every string
	by    moves.Searcher
}

// parseDefrag reads SHARE/TIME or SHARE/TIME/SEARCH.
func parseDefrag(text string) (defrag, error) {
	parts := strings.Split(text, "/")
	percent, found := strings.CutSuffix(parts[0], "%")
	share, err := strconv.ParseFloat(percent, 64)
	switch {
	case !found || err != nil || !(share > 0 && share <= 100):
		return defrag{}, fmt.Errorf("%q is no share of the running pods, such as 2%%", parts[0])
	case len(parts) < 2 || len(parts) > 3:
		return defrag{}, errors.New("it takes a share and a time")
	}
	by, err := moves.Named(strings.Join(parts[2:], ""))
	if err != nil {
		return defrag{}, err
	}
	d := defrag{share / 100, parts[1], by}
	_, err = d.interval(1)
	return d, err
}

// interval returns the time between two searches in units of so many seconds; 0: seconds have no meaning.
func (d defrag) interval(unit float64) (float64, error) {
	n, err := strconv.ParseFloat(d.every, 64)
	if err != nil {
		var t time.Duration
		if t, err = time.ParseDuration(d.every); err == nil && unit == 0 {
			return 0, fmt.Errorf("%s: the scenario has no seconds; give the time in its unit, such as 100", d.every)
		}
		n = t.Seconds() / unit
	}
	if err != nil || !(n > 0) {
		return 0, fmt.Errorf("%q is no time over 0, such as 1h, or 100 in the unit of the scenario", d.every)
	}
	return n, nil
}

// defragmented returns the contender whose pods move.
func defragmented(prefix string, x eval.Contender) (eval.Contender, error) {
	d, err := parseDefrag(strings.TrimPrefix(prefix, defragPrefix))
	if err != nil {
		return x, exit.New(exit.Usage, fmt.Errorf("--policies: %s:%s: %w", prefix, x.Name, err), "for example defrag=2%/1h:"+x.Name)
	}
	x.Moves = d.begin
	x.Name = prefix + ":" + x.Name
	return x, nil
}

// begin lets pods move in the episode that begins.
func (d defrag) begin(env *sim.Env) error {
	for _, w := range env.Config().Objective {
		if objective.Measured(w.Term) {
			return exit.Usagef("the objective %s is measured after a move, not before it; pods move for other objectives only", w.Term.Name())
		}
	}
	every, err := d.interval(env.Config().Seconds())
	if err != nil {
		return exit.New(exit.Usage, err, "")
	}
	err = env.Every(every, func() {
		for _, c := range d.find(env) {
			if err := env.Move(c.Moves...); err != nil {
				panic(fmt.Sprintf("package moves found a move that the simulator refuses: %v", err))
			}
		}
	})
	if err != nil {
		return exit.New(exit.Usage, err, "leave out "+defragPrefix+" here")
	}
	return nil
}

// find returns the moves to make now.
func (d defrag) find(env *sim.Env) []moves.Change {
	var pods []moves.Pod
	for at, pod := range env.Running {
		pods = append(pods, moves.Pod{Pod: pod, ID: at.Pod, Row: at.Row, Devices: at.Devices})
	}
	typical := env.Wanted()
	s := moves.New(env.Nodes(), pods, moves.Config{Evaluations: evaluations, Track: func(nodes []*cluster.Node) objective.Tracker {
		return moves.Fragmentation(env.Config().Objective, typical, nodes)
	}})
	return moves.Find(s, d.by, int(d.share*float64(len(pods))), func() bool { return false })
}
