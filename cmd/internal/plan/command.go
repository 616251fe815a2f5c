// Package plan is the command `gnnsched plan`.
package plan

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	ucli "github.com/urfave/cli/v2"
	"k8s.io/apimachinery/pkg/api/resource"

	"gnnsched/cmd/internal/progress"
	"gnnsched/internal/cli"
	"gnnsched/internal/exit"
	"gnnsched/scheduler/plan"
	"gnnsched/scheduler/replay"
	"gnnsched/scheduler/server"
	"gnnsched/workload/record"
)

// Command returns the command.
func Command() *ucli.Command {
	return &ucli.Command{
		Name:      "plan",
		Usage:     "say which pods to move so that most nodes of a recorded cluster become empty",
		ArgsUsage: "RECORD",
		Description: "The moves respect PodDisruptionBudgets and all filters of kube-scheduler. Nothing is moved, and no cluster is asked: RECORD\n" +
			"is a folder that gnnsched record or gnnsched convert wrote.\n\n" +
			"Examples:\n" +
			"   gnnsched plan prod.record                            # at the end of the record, at most 20 moves\n" +
			"   gnnsched plan --moves 100 --memory 64Gi prod.record  # moves may cost so much at most\n" +
			"   gnnsched plan --at 2026-03-01T12:00:00Z prod.record\n" +
			"   gnnsched plan -o json prod.record | jq .freed",
		Flags: append([]ucli.Flag{
			&ucli.IntFlag{Name: "moves", Value: 20, Usage: "move at most `N` pods; 0 for any number"},
			&ucli.StringFlag{Name: "memory", Usage: "move pods that request this `AMOUNT` of memory together at most, such as 64Gi"},
			&ucli.StringFlag{Name: "at", Usage: "plan from the state at this `TIME`, such as 2026-03-01T12:00:00Z; default: the end of the record"},
			&ucli.StringFlag{Name: "output", Aliases: []string{"o"}, Value: "text", Usage: "`FORMAT`: text or json"},
		}, cli.LogFlags()...),
		Action: run,
	}
}

func run(c *ucli.Context) error {
	if c.NArg() != 1 {
		return exit.New(exit.Usage, fmt.Errorf("there are %d arguments, want the folder of a record", c.NArg()), "gnnsched record --out prod.record writes one; flags come before it")
	}
	limits, err := limitsOf(c)
	if err != nil {
		return err
	}
	source, err := read(c.Args().First(), c.String("at"))
	if err != nil {
		return err
	}
	profiles, err := server.Config{Profiles: []server.Profile{{SchedulerName: server.DefaultProfile, Variant: server.DefaultProfile}}, QPS: 1}.Decode()
	if err != nil {
		return err
	}
	log, closer, err := cli.Log(c, "plan", progress.OnTerminal())
	if err != nil {
		return err
	}
	defer closer.Close()
	ctx, cancel := context.WithCancel(c.Context)
	defer cancel() // ends the plugins
	state, err := plan.At(ctx, source, profiles.Profiles[0])
	if err != nil {
		return failed(c, err)
	}
	bar := progress.New(c.App.ErrWriter, progress.OnTerminal(), log)
	moves, err := plan.Find(ctx, state, limits, func(done float64) { bar.Show(done, "search", "") })
	bar.Close()
	if err != nil {
		return failed(c, err)
	}
	if c.String("output") == "json" {
		e := json.NewEncoder(c.App.Writer)
		e.SetIndent("", "  ")
		return e.Encode(moves)
	}
	return moves.WriteText(c.App.Writer)
}

// failed gives an error of the record its exit code. An interruption keeps its own.
func failed(c *ucli.Context, err error) error {
	if c.Context.Err() != nil {
		return err
	}
	return exit.New(exit.Usage, fmt.Errorf("%s: %w", c.Args().First(), err), "the record has something that cannot be planned with; choose another time with --at")
}

func limitsOf(c *ucli.Context) (plan.Limits, error) {
	l := plan.Limits{Pods: c.Int("moves")}
	if l.Pods < 0 {
		return l, exit.Usagef("--moves %d is negative", l.Pods)
	}
	if m := c.String("memory"); m != "" {
		q, err := resource.ParseQuantity(m)
		if err != nil || q.Sign() <= 0 {
			return l, exit.New(exit.Usage, fmt.Errorf("--memory %q is not an amount over 0", m), "write it as Kubernetes does, such as 64Gi")
		}
		l.Memory = q.Value()
	}
	if o := c.String("output"); o != "text" && o != "json" {
		return l, exit.Usagef("--output %q: choose text or json", o)
	}
	return l, nil
}

// read reads a record up to a time; "" for its end.
func read(dir, at string) (replay.Source, error) {
	var w replay.Window
	if at != "" {
		t, err := time.Parse(time.RFC3339, at)
		if err != nil {
			return replay.Source{}, exit.New(exit.Usage, fmt.Errorf("--at %q is not a time", at), "write it as 2026-03-01T12:00:00Z")
		}
		w.To = t
	}
	r, err := record.Open(dir)
	if err != nil {
		if errors.Is(err, os.ErrNotExist) {
			return replay.Source{}, exit.New(exit.Usage, err, "gnnsched record --out prod.record writes a record")
		}
		return replay.Source{}, exit.New(exit.Usage, err, "")
	}
	s, err := replay.Read(r, w)
	if err == nil && at != "" && s.To < w.To.UnixMilli() {
		err = fmt.Errorf("--at %s is after the end of the record, %s", at, time.UnixMilli(s.To).UTC().Format(time.RFC3339))
	}
	if err != nil {
		return s, exit.New(exit.Usage, fmt.Errorf("%s: %w", dir, err), "choose a time of the record with --at, or another record")
	}
	return s, nil
}
