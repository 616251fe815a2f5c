//go:build torch

package main

import (
	"fmt"
	"slices"

	ucli "github.com/urfave/cli/v2"

	"gnnsched/gnn/checkpoint"
	"gnnsched/internal/exit"
	"gnnsched/scheduler/server"
)

func joinCommand() *ucli.Command {
	return &ucli.Command{
		Name: "join", Usage: "make one network for mixed clusters from one for ordinary nodes and one for GPUs",
		Description: "Nothing is learned. GPU pods go by the network for GPUs. Other pods go by the other network, among the nodes\n" +
			"where they take nothing from the GPUs. docs/gpu.md has the reasons and the figures.\n\n" +
			"Examples:\n" +
			"   gnntrain join                                    # the shipped networks; writes mixed.safetensors\n" +
			"   gnntrain join --nodes my.safetensors --devices gpu-gnn --out mine.safetensors\n" +
			"   rungnn --checkpoint mine.safetensors             # schedules with it",
		Flags: []ucli.Flag{
			&ucli.StringFlag{Name: "nodes", Value: "dqn", Usage: "shipped network or `FILE` for ordinary pods"},
			&ucli.StringFlag{Name: "devices", Value: "gpu-gnn", Usage: "shipped network or `FILE` for GPU pods"},
			&ucli.Float64Flag{Name: "tolerance", Value: 0.3, Usage: "`DEVICES` that an ordinary pod may take from the GPUs beyond the least possible, 0 to 1"},
			&ucli.StringFlag{Name: "out", Value: "mixed.safetensors", Usage: "`FILE` to write the network to"},
		},
		Action: join,
	}
}

func join(c *ucli.Context) error {
	if c.NArg() > 0 {
		return exit.Usagef("unexpected argument %q", c.Args().First())
	}
	nodes, _, err := shippedOrFile(c.String("nodes"))
	if err != nil {
		return err
	}
	devices, typical, err := shippedOrFile(c.String("devices"))
	if err != nil {
		return err
	}
	joined, err := checkpoint.Join(nodes, devices, float32(c.Float64("tolerance")))
	if err != nil {
		return exit.New(exit.Usage, fmt.Errorf("join %s and %s: %w", c.String("nodes"), c.String("devices"), err), "name a network for any cluster with --nodes, and one that gnntrain gpu wrote with --devices")
	}
	out := c.String("out")
	if err := joined.Save(out); err != nil {
		return err
	}
	if typical == nil {
		return nil
	}
	return typical.Save(out)
}

// shippedOrFile reads a shipped checkpoint or a file, with the typical pods beside it, if there are any.
func shippedOrFile(name string) (*checkpoint.Checkpoint, *checkpoint.TypicalPods, error) {
	if slices.Contains(checkpoint.ShippedNames(), name) {
		c, err := checkpoint.Shipped(name)
		if err != nil {
			return nil, nil, err
		}
		typical, err := checkpoint.ShippedTypical(name)
		return c, typical, err
	}
	c, err := server.LoadCheckpoint(name)
	if err != nil {
		return nil, nil, err
	}
	typical, err := checkpoint.LoadTypical(name)
	return c, typical, err
}
