//go:build !service

package main

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	ucli "github.com/urfave/cli/v2"

	"gnnsched/deploy"
	"gnnsched/internal/cli"
	"gnnsched/internal/exit"
)

// placeholder is the image in the chart's values.
const placeholder = "gnnsched/scheduler:latest"

// deployCommand returns the command.
func deployCommand() *ucli.Command {
	return &ucli.Command{
		Name:  "deploy",
		Usage: "print the manifests that run the scheduler on a cluster",
		Description: "It renders the Helm chart in deploy/chart, with Helm's engine, and needs no Helm. It changes nothing.\n" +
			"docs/how-to/deploy.md says how to check, switch, upgrade and go back.\n\n" +
			"Examples:\n" +
			"   gnnsched deploy --print --set image=registry.example/gnnsched:v1 | kubectl apply --server-side -f -\n" +
			"   gnnsched deploy --print --mode replacement             # for the pods of default-scheduler\n" +
			"   gnnsched deploy --print --set command=runacgnn --set args={--preferences=declared}\n" +
			"   gnnsched deploy --print --set checkpoint.configMap=weights --set checkpoint.file=my.safetensors\n" +
			"   gnnsched deploy --print-values > values.yaml           # to edit it\n" +
			"   gnnsched deploy --print --values values.yaml",
		Flags: []ucli.Flag{
			&ucli.BoolFlag{Name: "print", Usage: "print the manifests"},
			&ucli.BoolFlag{Name: "print-values", Usage: "print the values that can be set, with their defaults, and exit"},
			&ucli.StringFlag{Name: "mode", Usage: "`MODE` second, beside the default scheduler, or replacement; default: as the values say, second"},
			&ucli.StringFlag{Name: "name", Value: "gnnsched", Usage: "`NAME` of the objects"},
			&ucli.StringFlag{Name: "namespace", Aliases: []string{"n"}, Value: "gnnsched", Usage: "`NAMESPACE` of the scheduler's pods"},
			&ucli.StringSliceFlag{Name: "values", Aliases: []string{"f"}, Usage: "YAML `FILE` with values; may be given more than once"},
			&ucli.StringSliceFlag{Name: "set", Usage: "set one value, as `NAME=VALUE`; may be given more than once"},
		},
		Action: cli.FlagsOnly(func(c *ucli.Context) error { return cli.Written(c)(manifests(c)) }),
	}
}

// manifests returns the manifests that the flags select.
func manifests(c *ucli.Context) ([]byte, error) {
	switch {
	case c.Bool("print-values"):
		return deploy.Values()
	case c.Bool("print"):
		out, err := deploy.Render(deploy.Options{
			Mode: c.String("mode"), Name: c.String("name"), Namespace: c.String("namespace"),
			ValueFiles: c.StringSlice("values"),
			Set:        strings.Join(c.StringSlice("set"), ","), // the flag splits at commas, which Helm's syntax joins with too
		})
		if bytes.Contains(out, []byte("image: "+placeholder+"\n")) {
			fmt.Fprintf(c.App.ErrWriter, "note: nobody publishes %s: build it with compose/scheduler.Dockerfile, and name yours with --set image=\n",
				placeholder)
		}
		return out, err
	}
	return nil, exit.New(exit.Usage, errors.New("nothing to do: this command only prints"), "add --print, or --print-values")
}
