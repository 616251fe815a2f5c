// Package relay has the command `gnnsched relay`, and the flags of schedulers that learn with a trainer elsewhere.
package relay

import (
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"

	ucli "github.com/urfave/cli/v2"

	"gnnsched/cmd/internal/queue"
	"gnnsched/gnn/checkpoint"
	"gnnsched/internal/cli"
	"gnnsched/internal/exit"
	"gnnsched/scheduler/experience"
	"gnnsched/scheduler/experience/hub"
	"gnnsched/scheduler/learn/flags"
	"gnnsched/scheduler/policy/neural"
)

// Command returns the command.
func Command() *ucli.Command {
	return &ucli.Command{
		Name: "relay", Hidden: true,
		Usage: "send a scheduler's placements, from stdin, to a trainer elsewhere; rungnn --learn --experience starts this",
		Description: "It stands in the place of the scheduler's own trainer: the trainer's networks go into the file of --init, " +
			"and its reports to stdout.\n\nExamples:\n" +
			"   rungnn --learn --checkpoint my.safetensors --experience nats://127.0.0.1:4222    # starts: " +
			"relay --connect URL --init my.safetensors",
		Flags: slices.Concat([]ucli.Flag{
			&ucli.StringFlag{Name: "connect", Required: true, Usage: "`URL` of the NATS server where the trainer reads"},
			&ucli.StringFlag{Name: "init", Required: true, Usage: "`FILE` with the scheduler's weights, which the trainer's replace"},
		}, queue.Flags()),
		Action: cli.FlagsOnly(run),
	}
}

func run(c *ucli.Context) error {
	file := c.String("init")
	start, err := neural.Load(file)
	if err != nil {
		return err
	}
	steps, err := experience.NewReader(os.Stdin)
	if err != nil {
		return exit.New(exit.Usage, err, "start it with rungnn --learn --experience")
	}
	options, err := queue.Options(c, c.String("connect"))
	if err != nil {
		return err
	}
	h, err := hub.Open(c.Context, c.String("connect"), start, options...)
	if err != nil {
		return queue.Unreachable(err)
	}
	defer h.Close()
	signal.Ignore(syscall.SIGPIPE) // after a scheduler was killed
	r := hub.Relay{
		Hub: h, Save: func(k *checkpoint.Checkpoint) error { return k.Save(file) },
		Say: func(line string) { fmt.Fprintln(c.App.Writer, line) },
	}
	return r.Run(c.Context, steps)
}

// flag is the name of a scheduler's flag with the URL. The names of the others begin with it.
const flag = "experience"

// Flags returns the flags of a scheduler that learns.
func Flags() []ucli.Flag {
	out := []ucli.Flag{&ucli.StringFlag{Name: flag, Usage: "learn with the trainer that reads at this `URL` of a NATS server, " +
		"gnntrain --online --experience, and not with one of its own"}}
	for _, f := range queue.Flags() {
		s := f.(*ucli.StringFlag)
		s.Name = flag + "-" + s.Name
		out = append(out, s)
	}
	for _, f := range out {
		flags.Group(f, "with --learn")
	}
	return out
}

// Check refuses flags that would have no effect, or a URL with a password.
func Check(c *ucli.Context) error {
	for _, f := range Flags() {
		switch name := f.Names()[0]; {
		case c.IsSet(name) && !c.Bool(flags.Learn):
			return exit.Usagef("--%s is about learning: add --learn", name)
		case c.IsSet(name) && c.String(flag) == "":
			return exit.Usagef("--%s needs --%s with the URL of a NATS server", name, flag)
		}
	}
	return queue.Check(c.String(flag))
}

// Arguments returns the command line that sends a scheduler's steps to the trainer of its flags; nil without --experience. file has the
// scheduler's weights.
func Arguments(c *ucli.Context, file string) ([]string, error) {
	if c.String(flag) == "" {
		return nil, nil
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	if self, err = filepath.EvalSymlinks(self); err != nil { // rungnn is a link
		return nil, err
	}
	out := []string{self, "relay", "--connect", c.String(flag), "--init", file}
	for _, f := range queue.Flags() {
		if name := f.Names()[0]; c.IsSet(flag + "-" + name) {
			out = append(out, "--"+name, c.String(flag+"-"+name))
		}
	}
	return out, nil
}
