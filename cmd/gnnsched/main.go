// Command gnnsched is the scheduler with its tools, each as a subcommand. Called through a link
// named rungnn, rundqn, runacgnn, runacdqn, runsim, cleancluster or ktop, it runs that subcommand.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	ucli "github.com/urfave/cli/v2"

	"gnnsched/cmd/internal/convert"
	"gnnsched/cmd/internal/explain"
	"gnnsched/cmd/internal/shadow"
	"gnnsched/cmd/internal/web"
	"gnnsched/internal/choice"
	"gnnsched/internal/cli"
	"gnnsched/internal/exit"
	"gnnsched/scheduler/learn"
	"gnnsched/scheduler/policy/heuristic"
	"gnnsched/scheduler/policy/preference"
	"gnnsched/scheduler/server"
)

// version is set by the linker.
var version = "dev"

func main() {
	os.Exit(cli.Run(app(filepath.Base(os.Args[0])), os.Args))
}

// laboratory lists the commands for a person's own machine. It lists none in the image of the scheduler, which is built with the tag
// service.
var laboratory = func() []*ucli.Command { return nil }

// commands lists the subcommands in the order of the help.
func commands() []*ucli.Command {
	return slices.Concat(runCommands(),
		[]*ucli.Command{
			ktopCommand(), runsimCommand(), cleanclusterCommand(), explain.Command(), convert.RecordCommand(), serveCommand(), shadow.Command(),
			defragCommand(),
		},
		laboratory(), []*ucli.Command{healthcheckCommand(), completionCommand(), {
			Name: "version", Usage: "print the version, also that of Kubernetes", Description: "Examples:\n   gnnsched version",
			Action: cli.FlagsOnly(func(c *ucli.Context) error {
				ucli.ShowVersion(c)
				return nil
			}),
		}})
}

// app returns the command line for the name under which the program was called.
func app(name string) *ucli.App {
	for _, c := range commands() {
		if c.Name == name {
			return &ucli.App{
				Name: c.Name, Usage: c.Usage, UsageText: c.UsageText, Description: c.Description, ArgsUsage: c.ArgsUsage,
				Flags: c.Flags, Action: c.Action, Version: cli.Versions(version), EnableBashCompletion: true, HideHelpCommand: true,
			}
		}
	}
	return &ucli.App{
		Name: "gnnsched", Usage: "a Kubernetes scheduler with learned scores",
		Commands: commands(), Version: cli.Versions(version), EnableBashCompletion: true,
		Action: func(c *ucli.Context) error {
			if c.NArg() > 0 {
				return cli.UnknownCommand("gnnsched", c.Args().First(), c.App.Commands)
			}
			return ucli.ShowAppHelp(c)
		},
	}
}

// runCommands returns rungnn, rundqn, runacgnn and runacdqn: one scheduler with four networks.
func runCommands() []*ucli.Command {
	about := map[string]string{
		"gnn": "with messages", "dqn": "without messages",
		"acgnn": "with messages; actor-critic", "acdqn": "without messages; actor-critic",
	}
	var out []*ucli.Command
	for _, v := range server.Variants {
		out = append(out, &ucli.Command{
			Name:  "run" + v,
			Usage: "run kube-scheduler with the network " + v + " (" + about[v] + ")",
			Description: "Pods use it with `schedulerName: " + v + "`. Filters, preemption, queues and binding are upstream's.\n" +
				"If the network fails (no checkpoint, deadline, panic, NaN), upstream's scores decide.\n" +
				"The network prices what pods that arrive still find room for; a placement costs the room that it takes from others.\n" +
				"rungnn, rundqn, runacgnn and runacdqn differ in this network. With --policy, --profiles or\n" +
				"--config they are the same scheduler.\n\n" +
				"Examples:\n" +
				runExample(v, "", "on the simulated cluster") +
				runExample(v, "--kubeconfig ~/.kube/config --context dev", "on another cluster") +
				runExample(v, "--profiles gnn,acgnn,default-scheduler", "several schedulers in one process") +
				runExample(v, "--policy best-fit", "a heuristic, under its own name") +
				runExample(v, "--shadow", "place nothing; say what it would do beside the default scheduler") +
				runExample(v, "--share 0.05 --leader-elect-resource-name kube-scheduler",
					"place 5 % of default-scheduler's pods; stop if they fare worse") +
				runExample(v, "--http 8080", "show the cluster and the decisions in a browser") +
				runExample(v, "--print-config", "print the KubeSchedulerConfiguration, to edit it") +
				cli.More + "\nPolicies:\n" + heuristic.Help() + "\n" +
				"Profiles: " + strings.Join(server.ProfileNames(), ", ") + "\n\n" +
				"More examples:\n" + learnExamples(v) +
				runExample(v, "--preferences declared", "only what manifests declare comes first; for packing") +
				runExample(v, "--blend PodTopologySpread=2,NodeAffinity=2", "add scores of upstream plugins") +
				runExample(v, "--policy crane-dynamic --usage metrics.k8s.io", "score by measured usage") +
				runExample(v, "--policy greedy:traffic --traffic network.yaml", "near the pods that a pod talks to"),
			Flags: cli.Grouped(append(append(cli.ClusterFlags(), runFlags(v)...), slices.Concat(explain.RecordingFlags(), usageFlags(),
				shadow.Flags(), shareFlags(), web.Flags(), learn.SchedulerFlags(), cli.LogFlags())...),
				cli.Group{Flags: "shadow share learn"},
				cli.Group{Heading: "configuration", Flags: "config print-config scheduler-name deadline feature-gates"},
				cli.Group{Heading: "preferences", Flags: "blend"},
				cli.Group{Heading: "GPUs and traffic", Flags: "workload traffic"},
				cli.Group{Heading: "leader election, metrics and health", Flags: "leader-elect leader-elect-resource-name bind-address port"},
				cli.Group{Heading: "recorded decisions", Flags: "decisions decision-log decision-events"},
				cli.Group{Heading: "measured usage", Flags: cli.Names(usageFlags())}),
			Action: cli.FlagsOnly(func(c *ucli.Context) error { return runScheduler(c, v) }),
		})
	}
	return out
}

// runExample returns a line of the help of a scheduler.
func runExample(variant, flags, about string) string {
	return fmt.Sprintf("   %-54s # %s\n", strings.TrimRight("run"+variant+" "+flags, " "), about)
}

func runFlags(variant string) []ucli.Flag {
	return []ucli.Flag{
		&ucli.StringFlag{Name: "scheduler-name",
			Usage: "`NAME` that pods give as schedulerName; default: " + variant + ", or the policy's or the profile's name"},
		&ucli.StringFlag{Name: "policy", Usage: "`NAME` of a policy that decides instead of the network, such as best-fit or running:gpu-gnn; " +
			"--help-all lists them"},
		&ucli.StringSliceFlag{Name: "profiles",
			Usage: "run these `PROFILES` in one process, each under its own name, such as gnn,best-fit; --help-all lists them"},
		&ucli.StringFlag{Name: "checkpoint", Usage: "`FILE` with the weights; default: those built into the program. " +
			"A file that changes is loaded again"},
		&ucli.StringFlag{Name: "workload", Usage: "pod list `FILE` in openb format with the typical pods, which policies for GPUs need; " +
			"default: the pods seen so far"},
		&ucli.StringFlag{Name: "traffic", Usage: "YAML `FILE` with the network between nodes and the Prometheus that measures traffic between pods; " +
			"see docs/reference/scheduler-config.md"},
		&ucli.DurationFlag{Name: "deadline", Value: 100 * time.Millisecond,
			Usage: "`TIME` that one pass of the network may take; after it, upstream's scores decide"},
		&ucli.StringFlag{Name: "preferences", Usage: "how preferences of manifests count, `MODE` " +
			strings.Join(choice.Names(preference.Modes, choice.Text), ", ") + "; default: first, or blend with --blend"},
		&ucli.StringSliceFlag{Name: "blend", Usage: "add the scores of upstream plugins, as `NAME=WEIGHT`; " +
			"the network or policy has weight 1. Implies --preferences blend"},
		&ucli.StringFlag{Name: "bind-address", Value: "127.0.0.1", Usage: "`ADDRESS` to serve metrics and health checks on"},
		&ucli.IntFlag{Name: "port", Value: 10259, Usage: "`PORT` for metrics and health checks (HTTPS); 0 for none"},
		&ucli.BoolFlag{Name: "leader-elect", Usage: "schedule only while holding the lease, so that several replicas can run"},
		&ucli.StringFlag{Name: "leader-elect-resource-name", Usage: "`NAME` of the lease in kube-system; kube-scheduler, " +
			"to take turns with upstream's. Implies --leader-elect. Default: gnnsched"},
		&ucli.StringSliceFlag{Name: "feature-gates",
			Usage: "feature gates of Kubernetes to set, as `NAME=BOOL`; may be repeated. The cluster's components should have the same"},
		&ucli.StringFlag{Name: "config", Usage: "KubeSchedulerConfiguration `FILE`; it replaces the flags that choose profiles, policy, " +
			"network and deadline"},
		&ucli.BoolFlag{Name: "print-config", Usage: "print the KubeSchedulerConfiguration and exit"},
	}
}

// The scripts ask the program itself for the words that fit. With an environment variable named 0 that
// ends in zsh, it adds a colon and a description to commands. %[1]s stands for the names of the programs.
const (
	bashCompletion = `_gnnsched() {
  local cur="${COMP_WORDS[COMP_CWORD]}"
  local words=("${COMP_WORDS[@]:0:COMP_CWORD}")
  [[ "$cur" == -* ]] && words+=("$cur")
  COMPREPLY=($(compgen -W "$("${words[@]}" --generate-bash-completion 2>/dev/null)" -- "$cur"))
}
complete -o bashdefault -o default -F _gnnsched %[1]s
`
	zshCompletion = `#compdef %[1]s
_gnnsched() {
  local cur=${words[-1]}
  local -a asked=("${words[@]:0:#words[@]-1}") found
  [[ "$cur" == -* ]] && asked+=("$cur")
  found=("${(@f)$(env 0=zsh "${asked[@]}" --generate-bash-completion 2>/dev/null)}")
  if [[ -n "${found[1]}" ]]; then _describe 'values' found; else _files; fi
}
compdef _gnnsched %[1]s
`
	fishCompletion = `function __gnnsched
  set -l asked (commandline -opc)
  set -l cur (commandline -ct)
  string match -q -- '-*' $cur; and set -a asked $cur
  env 0=zsh $asked --generate-bash-completion 2>/dev/null | string replace ':' \t
end
for name in %[1]s
  complete -c $name -a '(__gnnsched)'
end
`
)

// completed are the programs that the scripts are for.
const completed = "gnnsched rungnn rundqn runacgnn runacdqn runsim cleancluster ktop kwokcluster gnntrain"

func completionCommand() *ucli.Command {
	return &ucli.Command{
		Name:      "completion",
		Usage:     "print a script that completes commands and flags of all programs in bash, zsh or fish",
		ArgsUsage: "bash|zsh|fish",
		Description: "Examples:\n" +
			"   source <(gnnsched completion bash)                                      # or in ~/.bashrc\n" +
			"   source <(gnnsched completion zsh)                                       # or in ~/.zshrc, after compinit\n" +
			"   gnnsched completion fish > ~/.config/fish/conf.d/gnnsched.fish",
		Action: func(c *ucli.Context) error {
			script, err := completion(c.Args().Slice())
			if err != nil {
				return err
			}
			_, err = fmt.Fprint(c.App.Writer, script)
			return err
		},
	}
}

// completion returns the script for a shell.
func completion(args []string) (string, error) {
	if len(args) != 1 {
		return "", exit.New(exit.Usage, fmt.Errorf("%d arguments, want the name of a shell", len(args)), "choose bash, zsh or fish")
	}
	scripts := map[string]string{"bash": bashCompletion, "zsh": zshCompletion, "fish": fishCompletion}
	script, known := scripts[args[0]]
	if !known {
		return "", exit.New(exit.Usage, fmt.Errorf("no completion for the shell %q", args[0]), "choose bash, zsh or fish")
	}
	return fmt.Sprintf(script, completed), nil
}
