//go:build !service

package main

import (
	ucli "github.com/urfave/cli/v2"

	"gnnsched/cmd/internal/bench"
	"gnnsched/cmd/internal/compare"
	"gnnsched/cmd/internal/convert"
	"gnnsched/cmd/internal/demo"
	"gnnsched/cmd/internal/deploy"
	"gnnsched/cmd/internal/doctor"
	"gnnsched/cmd/internal/man"
	"gnnsched/cmd/internal/plan"
	"gnnsched/cmd/internal/report"
)

func init() {
	laboratory = func() []*ucli.Command {
		return []*ucli.Command{
			evalCommand(), bench.Command(version), tuneCommand(), compare.Command(), convert.Command(), plan.Command(), report.Command(), demo.Command(),
			deploy.Command(), man.Command("gnnsched", version, commands), doctor.Command(), soakCommand(),
		}
	}
}
