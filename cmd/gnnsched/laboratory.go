//go:build !service

package main

import (
	"time"

	ucli "github.com/urfave/cli/v2"

	"gnnsched/cmd/internal/compare"
	"gnnsched/cmd/internal/convert"
	"gnnsched/cmd/internal/plan"
	"gnnsched/cmd/internal/trial"
	"gnnsched/cmd/internal/work"
	"gnnsched/internal/cli"
	"gnnsched/internal/workers"
	"gnnsched/scheduler/eval/contender"
	"gnnsched/scheduler/eval/remote"
)

func init() {
	laboratory = func() []*ucli.Command {
		return []*ucli.Command{
			trial.Eval(), work.Command(episodes), trial.Bench(version), trial.Tune(version), compare.Command(), convert.Command(),
			plan.Command(), trial.Demo(), deployCommand(), cli.Manual(), doctorCommand(),
			soakCommand(),
		}
	}
}

// episodes lets other processes play episodes.
var episodes = work.Program{
	Usage: "play the episodes of evaluations on other machines",
	Description: "gnnsched eval --workers URL puts its episodes into a queue at that URL, and workers play them. " +
		"One of the workers can have the\nqueue, or any NATS server with JetStream. A worker gets the episodes of the same program on the " +
		"same kind of processor only,\nso that results are the same to the last digit. It ends on Ctrl-C or SIGTERM after what it plays, " +
		"and others go on.\n\nExamples:\n" +
		"   gnnsched work --listen 127.0.0.1:4222                  # a queue and a worker for this machine's evaluations\n" +
		"   gnnsched eval --workers nats://127.0.0.1:4222          # … which they use\n" +
		"   gnnsched work --connect nats://127.0.0.1:4222          # another worker\n" +
		"   gnnsched work --listen 0.0.0.0:4222 --tls-cert-file tls.crt --tls-private-key-file tls.key --client-ca-file ca.crt\n" +
		"   gnnsched work --connect tls://queue:4222 --tls-cert-file me.crt --tls-private-key-file me.key --client-ca-file ca.crt",
	Work: "episodes", Limit: time.Hour,
	Handlers: func() map[string]workers.Handler {
		player := &remote.Player{Contender: contender.Of}
		courses := &compare.Player{}
		return map[string]workers.Handler{remote.Kind: player.Play, compare.Kind: courses.Play}
	},
}
