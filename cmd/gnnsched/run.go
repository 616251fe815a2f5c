package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rs/zerolog"
	ucli "github.com/urfave/cli/v2"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"

	"gnnsched/cmd/internal/explain"
	"gnnsched/cmd/internal/shadow"
	"gnnsched/cmd/internal/share"
	"gnnsched/cmd/internal/web"
	"gnnsched/internal/cli"
	"gnnsched/internal/exit"
	"gnnsched/internal/kubeconfig"
	"gnnsched/scheduler/learn/flags"
	"gnnsched/scheduler/plugin"
	"gnnsched/scheduler/plugin/canary"
	"gnnsched/scheduler/plugin/traffic"
	"gnnsched/scheduler/plugin/userconfig"
	"gnnsched/scheduler/policy/heuristic"
	"gnnsched/scheduler/policy/preference"
	"gnnsched/scheduler/server"
	watcher "gnnsched/scheduler/shadow"
	usageflags "gnnsched/scheduler/usage/flags"
	"gnnsched/workload/trace/openb"
)

// runCommands returns rungnn, rundqn, runacgnn and runacdqn: one scheduler with four networks.
func runCommands() []*ucli.Command {
	about := map[string]string{
		"gnn": "message passing, deep Q-learning", "dqn": "no message passing, deep Q-learning",
		"acgnn": "message passing, actor-critic", "acdqn": "no message passing, actor-critic",
	}
	var out []*ucli.Command
	for _, v := range server.Variants {
		out = append(out, &ucli.Command{
			Name:  "run" + v,
			Usage: "run kube-scheduler with learned scores (" + about[v] + ")",
			Description: "Pods use it with `schedulerName: " + v + "`. Filters, preemption, queues and binding are upstream's.\n" +
				"If the network fails (no checkpoint, deadline, panic, NaN), upstream's scores decide.\n\n" +
				"Examples:\n" +
				"   run" + v + "                                           # on the simulated cluster\n" +
				"   run" + v + " --kubeconfig ~/.kube/config --context dev # on another cluster\n" +
				"   run" + v + " --profiles gnn,acgnn,default-scheduler    # several schedulers in one process\n" +
				"   run" + v + " --policy best-fit                         # a heuristic, under its own name\n" +
				"   run" + v + " --shadow                                  # place nothing; say what it would do beside the default scheduler\n" +
				"   run" + v + " --share 0.05                              # place 5 % of default-scheduler's pods, the rest as it would; stop if they fare worse\n" +
				"   run" + v + " --http 8080                               # show the cluster and the decisions in a browser\n" +
				"   run" + v + " --print-config                            # print the KubeSchedulerConfiguration, to edit it\n" +
				cli.More + "\nPolicies:\n" + heuristic.Help() + "\n" +
				"Profiles: " + strings.Join(server.ProfileNames(), ", ") + "\n\n" +
				"More examples:\n" + learnExamples(v) +
				"   run" + v + " --preferences declared                    # only what manifests declare comes first; for packing\n" +
				"   run" + v + " --blend PodTopologySpread=2,NodeAffinity=2 # add scores of upstream plugins\n" +
				"   run" + v + " --policy crane-dynamic --usage metrics.k8s.io # score by measured usage\n" +
				"   run" + v + " --policy greedy:traffic --traffic network.yaml # near the pods that a pod talks to",
			Flags: cli.Grouped(append(append(cli.ClusterFlags(), runFlags(v)...), slices.Concat(explain.RecordingFlags(), usageflags.Flags(), shadow.Flags(), share.Flags(), web.Flags(), flags.Scheduler(v), flags.OtherHead(v), cli.LogFlags())...),
				cli.Group{Flags: "shadow share learn"},
				cli.Group{Heading: "configuration", Flags: "config print-config scheduler-name deadline percentage-of-nodes-to-score kube-api-qps feature-gates"},
				cli.Group{Heading: "preferences and objectives", Flags: "blend objective objective-limits"},
				cli.Group{Heading: "GPUs and traffic", Flags: "workload pods-leave traffic"},
				cli.Group{Heading: "leader election, metrics and health", Flags: "leader-elect leader-elect-resource-name bind-address port profiling"},
				cli.Group{Heading: "recorded decisions", Flags: "decisions decision-log decision-default decision-events"},
				cli.Group{Heading: "measured usage", Flags: cli.Names(usageflags.Flags())}),
			Action: func(c *ucli.Context) error { return runScheduler(c, v) },
		})
	}
	return out
}

func runFlags(variant string) []ucli.Flag {
	return []ucli.Flag{
		&ucli.StringFlag{Name: "scheduler-name", Usage: "`NAME` that pods give as schedulerName; default: " + variant + ", or the policy's or the profile's name"},
		&ucli.StringFlag{Name: "policy", Usage: "`NAME` of a heuristic that decides instead of the network, such as best-fit; --help-all lists them"},
		&ucli.StringSliceFlag{Name: "profiles", Usage: "run these `PROFILES` in one process, each under its own name, such as gnn,best-fit; --help-all lists them"},
		&ucli.StringFlag{Name: "checkpoint", Usage: "`FILE` with the weights; default: those built into the program. A file that changes is loaded again"},
		&ucli.StringFlag{Name: "objective", Usage: "`OBJECTIVE` that a network of many objectives serves, such as balance=1,energy=0.3; default: that of its training"},
		&ucli.StringFlag{Name: "objective-limits", Usage: "let the annotation gnnsched.io/objective of pods and namespaces choose within these `LIMITS`, such as balance=0.5:1,energy=0:0.5; default: it has no effect"},
		&ucli.BoolFlag{Name: "pods-leave", Usage: "let networks for GPUs keep twice as much for pods that only some nodes can serve; for clusters whose pods come and go"},
		&ucli.StringFlag{Name: "workload", Usage: "pod list `FILE` in openb format with the typical pods, which policies for GPUs need; default: the pods seen so far"},
		&ucli.StringFlag{Name: "traffic", Usage: "YAML `FILE` with the network between nodes, with which traffic between pods counts; see docs/reference/scheduler-config.md"},
		&ucli.DurationFlag{Name: "deadline", Value: 100 * time.Millisecond, Usage: "`TIME` that one pass of the network may take; after it, upstream's scores decide"},
		&ucli.StringFlag{Name: "preferences", Usage: "how preferences of manifests count, `MODE` " + preferenceModes() + "; default: first, or blend with --blend"},
		&ucli.StringSliceFlag{Name: "blend", Usage: "add the scores of upstream plugins, as `NAME=WEIGHT`; the network or policy has weight 1. Implies --preferences blend"},
		&ucli.IntFlag{Name: "percentage-of-nodes-to-score", Usage: "search this `PERCENT` of the nodes for feasible ones; 0 adapts it to the cluster, as upstream does"},
		&ucli.Float64Flag{Name: "kube-api-qps", Value: kubeconfig.UnlimitedQPS, Usage: "`REQUESTS` per second to the API server at most"},
		&ucli.StringFlag{Name: "bind-address", Value: "127.0.0.1", Usage: "`ADDRESS` to serve metrics and health checks on"},
		&ucli.IntFlag{Name: "port", Value: 10259, Usage: "`PORT` for metrics and health checks (HTTPS); 0 for none"},
		&ucli.BoolFlag{Name: "profiling", Usage: "serve /debug/pprof and /debug/flags/v on the port too, to callers with a token"},
		&ucli.BoolFlag{Name: "leader-elect", Usage: "schedule only while holding the lease, so that several replicas can run"},
		&ucli.StringFlag{Name: "leader-elect-resource-name", Usage: "`NAME` of the lease in kube-system; kube-scheduler, to take turns with upstream's. Implies --leader-elect. Default: gnnsched"},
		&ucli.StringSliceFlag{Name: "feature-gates", Usage: "feature gates of Kubernetes to set, as `NAME=BOOL`; may be repeated. The cluster's components should have the same"},
		&ucli.StringFlag{Name: "config", Usage: "KubeSchedulerConfiguration `FILE`; it replaces the flags that choose profiles, policy, network and deadline"},
		&ucli.BoolFlag{Name: "print-config", Usage: "print the KubeSchedulerConfiguration and exit"},
	}
}

func runScheduler(c *ucli.Context, variant string) error {
	if c.NArg() > 0 {
		return exit.Usagef("unexpected argument %q", c.Args().First())
	}
	r, err := readRequest(c, variant)
	if err != nil {
		return err
	}
	if c.Bool("print-config") {
		y, err := r.config.YAMLFor(r.target.Kubeconfig)
		if err == nil {
			_, err = c.App.Writer.Write(y)
		}
		return err
	}
	log, closer, err := cli.Log(c, "run"+variant, false)
	if err != nil {
		return err
	}
	defer closer.Close()
	client, rest, err := r.target.Connect(c.Context)
	if err != nil {
		return err
	}
	if c.Bool(shadow.Flag) {
		return watch(c, r, r.title(rest.Host), log)
	}
	if r.initial != nil {
		if err := r.initial.save(); err != nil {
			return err
		}
	}
	file, remove, err := server.WriteTemporary(r.config, r.target)
	if err != nil {
		return err
	}
	defer remove()
	r.warn(log)
	endpoint := server.Endpoint{Address: c.String("bind-address"), Port: c.Int("port"), FeatureGates: c.StringSlice("feature-gates")}
	var done func()
	if endpoint.Recording, done, err = explain.Recording(c, log); err != nil {
		return err
	}
	defer done()
	endpoint.Recording.Course, endpoint.Recording.Shares = plugin.NewCourse(clock.RealClock{}), &canary.Reports{}
	stop, err := web.Serve(c, web.Shown{Title: r.title(rest.Host), Client: client, Recording: endpoint.Recording})
	if err != nil {
		return err
	}
	defer stop()
	err = server.Run(c.Context, file, endpoint, func() {
		remove() // now, so that a scheduler that is killed leaves nothing behind where files in memory are not to be had
		log.Info().Strs("schedulers", r.config.SchedulerNames()).Str("cluster", rest.Host).Int("port", endpoint.Port).Msg(r.begins() + "; Ctrl-C stops")
	})
	if err == nil && c.Context.Err() != nil {
		log.Info().Msg("stopped") // a scheduler that ran until it was told to stop succeeded
	}
	return errors.Join(err, endpoint.Recording.Shares.WriteText(c.App.Writer))
}

// watch watches what another scheduler of the cluster places. title names the cluster.
func watch(c *ucli.Context, r request, title string, log zerolog.Logger) error {
	file, remove, err := server.WriteTemporary(r.config, r.target)
	if err != nil {
		return err
	}
	defer remove()
	recording, done, err := explain.Recording(c, log)
	if err != nil {
		return err
	}
	defer done()
	page := func(client kubernetes.Interface, live func(context.Context) (watcher.Live, error)) (func(), error) {
		return web.Serve(c, web.Shown{Title: title, Client: client, Recording: recording, Shadow: live})
	}
	return shadow.Scheduler{Name: r.name, File: file, Remove: remove, Recording: recording, Page: page}.Run(c, log)
}

// request holds the parsed flags of a scheduler run.
type request struct {
	target         kubeconfig.Target
	config         server.Configuration // made from the flags, or read from the file of --config
	withoutWeights []string             // names of the schedulers whose network has no weights
	name           string               // of the first profile
	initial        *initialWeights      // to be saved before the scheduler starts; nil for none
}

// warn names the profiles without weights.
func (r request) warn(log zerolog.Logger) {
	for _, v := range r.withoutWeights {
		log.Warn().Str("profile", v).Msg("no checkpoint is shipped for this variant: upstream's scores decide; train one with gnntrain, name it with --checkpoint")
	}
}

// title names the cluster, whose API server is at host.
func (r request) title(host string) string {
	return cmp.Or(r.target.Name(), strings.TrimPrefix(host, "https://"))
}

// begins says what the scheduler does first.
func (r request) begins() string {
	if r.config.Elects() {
		return "waiting for the lease, to schedule while this process holds it"
	}
	return "scheduling"
}

// configFlags have a counterpart in the file of --config, and cannot be given together with it.
var configFlags = append([]string{"scheduler-name", "policy", "profiles", "checkpoint", "objective", "objective-limits", "pods-leave", "workload", "traffic", "deadline", "preferences", "blend", "percentage-of-nodes-to-score", "kube-api-qps", "leader-elect", "leader-elect-resource-name", "profiling"}, slices.Concat(usageflags.Names(), share.Names(), flags.SchedulerNames())...)

func readRequest(c *ucli.Context, variant string) (request, error) {
	r := request{target: cli.Target(c)}
	for _, check := range []func(*ucli.Context) error{shadow.Check, share.Check, web.Check} {
		if err := check(c); err != nil {
			return r, err
		}
	}
	if path := c.String("config"); path != "" {
		for _, name := range configFlags {
			if c.IsSet(name) {
				return r, exit.New(exit.Usage, fmt.Errorf("--%s and --config exclude each other", name), "write it into the file")
			}
		}
		f, err := userconfig.Read(path)
		if err != nil {
			return r, err
		}
		if c.Bool(shadow.Flag) && f.Shares() {
			return r, exit.New(exit.Usage, fmt.Errorf("--%s places nothing, and %s has a share", shadow.Flag, path), "leave share out of the file")
		}
		if r.target.Kubeconfig == "" {
			r.target.Kubeconfig = f.Kubeconfig()
		}
		r.config = f
		if names := f.SchedulerNames(); len(names) > 0 {
			r.name = names[0]
		}
		return r, nil
	}
	cfg, err := schedulerConfig(c, variant)
	if err != nil {
		return r, err
	}
	r.name = cfg.Profiles[0].SchedulerName
	if err := shadow.Take(c, &cfg); err != nil {
		return r, err
	}
	if err := share.Take(c, &cfg); err != nil {
		return r, err
	}
	if r.initial, err = learning(c, &cfg.Profiles[0], variant); err != nil {
		return r, err
	}
	r.config, r.withoutWeights = cfg, cfg.WithoutWeights()
	return r, nil
}

// schedulerConfig turns the flags into a configuration. It also reads the checkpoint, because
// the scheduler would only fall back to upstream's scores if it could not.
func schedulerConfig(c *ucli.Context, variant string) (server.Config, error) {
	cfg := server.Config{
		QPS: float32(c.Float64("kube-api-qps")), PercentageOfNodesToScore: int32(c.Int("percentage-of-nodes-to-score")), Profiling: c.Bool("profiling"),
		LeaderElect: c.Bool("leader-elect") || c.IsSet("leader-elect-resource-name"), Lease: c.String("leader-elect-resource-name"),
	}
	blend, err := parseBlend(c.StringSlice("blend"))
	if err != nil {
		return cfg, err
	}
	if cfg.Profiles, err = profiles(c, variant); err != nil {
		return cfg, err
	}
	measured, err := usageflags.Config(c)
	if err != nil {
		return cfg, err
	}
	network, err := traffic.Load(c.String("traffic"))
	if err != nil {
		return cfg, exit.New(exit.Usage, fmt.Errorf("--traffic: %w", err), "docs/reference/scheduler-config.md describes the file")
	}
	for i := range cfg.Profiles {
		cfg.Profiles[i].Usage, cfg.Profiles[i].Traffic = measured, network
		cfg.Profiles[i].Deadline = c.Duration("deadline")
		cfg.Profiles[i].Objective, cfg.Profiles[i].ObjectiveLimits = c.String("objective"), c.String("objective-limits")
		cfg.Profiles[i].PodsLeave = c.Bool("pods-leave") && cfg.Profiles[i].HasReserve()
		cfg.Profiles[i].Preferences, cfg.Profiles[i].Blend = preference.Mode(c.String("preferences")), blend
		if file := c.String("workload"); file != "" && cfg.Profiles[i].Variant != server.DefaultProfile {
			if cfg.Profiles[i].Workload, err = workloadPath(file); err != nil {
				return cfg, err
			}
		}
	}
	if c.Bool("pods-leave") && !slices.ContainsFunc(cfg.Profiles, func(p server.Profile) bool { return p.PodsLeave }) {
		return cfg, exit.Usagef("--pods-leave is for networks for GPU clusters and mixed ones; choose one with --profiles, such as gpu-gnn")
	}
	if err := cfg.Validate(); err != nil {
		return cfg, exit.New(exit.Usage, err, "see --help")
	}
	if path := c.String("checkpoint"); path != "" && !c.Bool("learn") { // with --learn the file need not exist
		_, err = server.LoadCheckpoint(path)
	}
	return cfg, err
}

// workloadPath checks that the file is a pod list, and returns its absolute path.
func workloadPath(file string) (string, error) {
	if _, err := openb.LoadPods(file); err != nil {
		return "", exit.New(exit.Usage, fmt.Errorf("--workload: %w", err), "docs/reference/scenario-file.md describes the file")
	}
	path, err := filepath.Abs(file) // the scheduler may run in another directory
	if err != nil {
		return "", fmt.Errorf("--workload: %w", err)
	}
	return path, nil
}

// profiles returns the profiles that --profiles names, or the one that the other flags describe.
func profiles(c *ucli.Context, variant string) ([]server.Profile, error) {
	names := c.StringSlice("profiles")
	if len(names) == 0 {
		p, err := profile(c, variant)
		return []server.Profile{p}, err
	}
	for _, flag := range []string{"checkpoint", "policy", "scheduler-name", "learn"} {
		if one := len(names) == 1 && (flag == "scheduler-name" || c.Bool("learn") && flag != "policy"); c.IsSet(flag) && !one {
			return nil, exit.New(exit.Usage, fmt.Errorf("--%s describes one scheduler, and --profiles names others", flag), "leave one out, or write a file for --config to have both")
		}
	}
	var out []server.Profile
	for _, n := range names {
		p, err := server.ProfileNamed(n)
		if err != nil {
			return nil, exit.New(exit.Usage, fmt.Errorf("--profiles: %w", err), "")
		}
		if c.Bool("learn") {
			p.Checkpoint = c.String("checkpoint")
		}
		if c.IsSet("scheduler-name") { // then there is only one
			p.SchedulerName = c.String("scheduler-name")
		}
		out = append(out, p)
	}
	return out, nil
}

// profile returns the profile of one scheduler: the network of the variant, or the heuristic of
// --policy.
func profile(c *ucli.Context, variant string) (server.Profile, error) {
	p := server.Profile{SchedulerName: variant, Variant: variant, Checkpoint: c.String("checkpoint")}
	if name := c.String("policy"); name != "" {
		if c.IsSet("checkpoint") {
			return p, exit.New(exit.Usage, errors.New("--policy and --checkpoint exclude each other"), "leave one out: a heuristic has no weights")
		}
		if _, err := heuristic.Find(name); err != nil {
			return p, exit.New(exit.Usage, fmt.Errorf("--policy: %w", err), "")
		}
		p = server.Profile{SchedulerName: name, Policy: name}
	}
	if c.IsSet("scheduler-name") {
		p.SchedulerName = c.String("scheduler-name")
	}
	return p, nil
}

// preferenceModes lists the values of --preferences.
func preferenceModes() string {
	var all []string
	for _, p := range preference.Modes {
		all = append(all, string(p))
	}
	return strings.Join(all, ", ")
}

// parseBlend parses NAME=WEIGHT.
func parseBlend(items []string) (map[string]int32, error) {
	out := map[string]int32{}
	for _, item := range items {
		name, weight, ok := strings.Cut(item, "=")
		w, err := strconv.ParseInt(weight, 10, 32)
		if !ok || err != nil || w < 1 || name == "" {
			return nil, exit.New(exit.Usage, fmt.Errorf("--blend %q: want NAME=WEIGHT with a weight of 1 or more", item), "for example --blend PodTopologySpread=2,NodeAffinity=2")
		}
		out[name] = int32(w)
	}
	return out, nil
}
