package main

import (
	"os"
	"os/signal"
	"syscall"

	ucli "github.com/urfave/cli/v2"
	upstreamapp "k8s.io/kubernetes/cmd/kube-scheduler/app"

	"gnnsched/internal/kubeconfig"
	"gnnsched/scheduler/server"
)

// Commands with which outage starts this program again.
const (
	ourCommandName      = "our-scheduler"
	upstreamCommandName = "kube-scheduler"
)

// childCommands are the schedulers that outage compares.
func childCommands() []*ucli.Command {
	return []*ucli.Command{
		{Name: ourCommandName, Hidden: true, Action: func(c *ucli.Context) error {
			p := server.Profile{SchedulerName: ourProfile, Args: server.Args{Variant: ourProfile}}
			config := server.Config{QPS: kubeconfig.UnlimitedQPS, Profiles: []server.Profile{p}}
			file, remove, err := server.WriteTemporary(config, kubeconfig.Target{Kubeconfig: c.Args().First()})
			if err != nil {
				return err
			}
			defer remove()
			return server.Run(c.Context, file, server.Endpoint{Address: "127.0.0.1"}, nil)
		}},
		{Name: upstreamCommandName, Hidden: true, SkipFlagParsing: true, Action: func(c *ucli.Context) error {
			signal.Reset(os.Interrupt, syscall.SIGTERM) // upstream's command has a handler of its own
			command := upstreamapp.NewSchedulerCommand()
			command.SetArgs(c.Args().Slice())
			return command.Execute()
		}},
	}
}
