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

	"github.com/rs/zerolog"
	ucli "github.com/urfave/cli/v2"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"

	"gnnsched/cmd/internal/explain"
	"gnnsched/cmd/internal/shadow"
	"gnnsched/cmd/internal/web"
	"gnnsched/gnn/checkpoint"
	"gnnsched/internal/cli"
	"gnnsched/internal/exit"
	"gnnsched/internal/kubeconfig"
	"gnnsched/internal/promapi"
	"gnnsched/scheduler/learn"
	"gnnsched/scheduler/plugin"
	"gnnsched/scheduler/plugin/canary"
	"gnnsched/scheduler/plugin/traffic"
	"gnnsched/scheduler/plugin/userconfig"
	"gnnsched/scheduler/policy/neural"
	"gnnsched/scheduler/policy/preference"
	"gnnsched/scheduler/server"
	watcher "gnnsched/scheduler/shadow"
	"gnnsched/scheduler/usage"
	"gnnsched/workload/trace/openb"
)

func runScheduler(c *ucli.Context, variant string) error {
	r, err := readRequest(c, variant)
	if err != nil {
		return err
	}
	if c.Bool("print-config") {
		return cli.Written(c)(r.config.YAMLFor(r.target.Kubeconfig))
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
		if err := r.initial.checkpoint.Save(r.initial.file); err != nil {
			return exit.New(exit.Usage, err, "choose a place that you can write to with --checkpoint")
		}
	}
	file, remove, err := server.WriteTemporary(r.config, r.target)
	if err != nil {
		return err
	}
	defer remove()
	for _, v := range r.withoutWeights {
		log.Warn().Str("profile", v).
			Msg("no checkpoint is shipped for this variant: upstream's scores decide; train one with gnntrain, name it with --checkpoint")
	}
	endpoint := server.Endpoint{Address: c.String("bind-address"), Port: c.Int("port"), FeatureGates: c.StringSlice("feature-gates")}
	var done func()
	if endpoint.Recording, done, err = explain.Recording(c, log); err != nil {
		return err
	}
	defer done()
	endpoint.Recording.Curves, endpoint.Recording.Canaries = plugin.NewCurveSampler(clock.RealClock{}), &canary.Reports{}
	stop, err := web.Serve(c, web.Shown{Title: r.title(rest.Host), Client: client, Recording: endpoint.Recording})
	if err != nil {
		return err
	}
	defer stop()
	err = server.Run(c.Context, file, endpoint, func() {
		remove() // now: without files in memory, a killed scheduler would otherwise leave the file behind
		log.Info().Strs("schedulers", r.config.SchedulerNames()).Str("cluster", rest.Host).Int("port", endpoint.Port).
			Msg(r.begins() + "; Ctrl-C stops")
	})
	if err == nil && c.Context.Err() != nil {
		log.Info().Msg("stopped") // a scheduler that ran until it was told to stop succeeded
	}
	return errors.Join(err, endpoint.Recording.Canaries.WriteText(c.App.Writer))
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

// title names the cluster, whose API server is at host.
func (r request) title(host string) string {
	return cmp.Or(r.target.Name(), strings.TrimPrefix(host, "https://"))
}

// begins describes the scheduler's first step.
func (r request) begins() string {
	if r.config.Elects() {
		return "waiting for the lease, to schedule while this process holds it"
	}
	return "scheduling"
}

// configFlags have a counterpart in the file of --config, and cannot be given together with it.
var configFlags = append([]string{
	"scheduler-name", "policy", "profiles", "checkpoint", "workload", "traffic", "deadline",
	"preferences", "blend", "leader-elect", "leader-elect-resource-name",
}, slices.Concat(strings.Fields(cli.Names(slices.Concat(usageFlags(), shareFlags()))), learn.SchedulerNames())...)

func readRequest(c *ucli.Context, variant string) (request, error) {
	r := request{target: cli.Target(c)}
	for _, check := range []func(*ucli.Context) error{shadow.Check, checkShare, web.Check} {
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
		if c.Bool(shadow.Flag) && f.HasCanary() {
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
	if err := takeShare(c, &cfg); err != nil {
		return r, err
	}
	if r.initial, err = learning(c, &cfg.Profiles[0]); err != nil {
		return r, err
	}
	if err := cfg.Validate(); err != nil {
		return r, exit.New(exit.Usage, err, "see --help")
	}
	r.config, r.withoutWeights = cfg, cfg.WithoutWeights()
	return r, nil
}

// schedulerConfig turns the flags into a configuration. A scheduler with a bad checkpoint starts with upstream's scores, says so and
// waits for a better file. A shadow serves nobody: it is refused.
func schedulerConfig(c *ucli.Context, variant string) (server.Config, error) {
	cfg := server.Config{
		QPS:         kubeconfig.UnlimitedQPS,
		LeaderElect: c.Bool("leader-elect") || c.IsSet("leader-elect-resource-name"), Lease: c.String("leader-elect-resource-name"),
	}
	blend, err := parseBlend(c.StringSlice("blend"))
	if err != nil {
		return cfg, err
	}
	if cfg.Profiles, err = profiles(c, variant); err != nil {
		return cfg, err
	}
	measured, err := usageConfig(c)
	if err != nil {
		return cfg, err
	}
	network, err := traffic.Load(c.String("traffic"))
	if err != nil {
		return cfg, exit.New(exit.Usage, fmt.Errorf("--traffic: %w", err), "docs/reference/scheduler-config.md describes the file")
	}
	for i := range cfg.Profiles {
		p := &cfg.Profiles[i]
		p.Usage, p.Traffic, p.Deadline.Duration = measured, network, c.Duration("deadline")
		p.Preferences, p.Blend = preference.Mode(c.String("preferences")), blend
		if file := c.String("workload"); file != "" && p.Variant != server.DefaultProfile {
			if p.Workload, err = workloadPath(file); err != nil {
				return cfg, err
			}
		}
	}
	if err := cfg.Validate(); err != nil {
		return cfg, exit.New(exit.Usage, err, "see --help")
	}
	if path := c.String("checkpoint"); path != "" && c.Bool(shadow.Flag) {
		_, err = neural.Load(path)
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
			return nil, exit.New(exit.Usage, fmt.Errorf("--%s describes one scheduler, and --profiles names others", flag),
				"leave one out, or write a file for --config to have both")
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

// profile returns the profile of one scheduler: the network of the variant, or the policy of
// --policy.
func profile(c *ucli.Context, variant string) (server.Profile, error) {
	p := server.Profile{SchedulerName: variant, Args: plugin.Args{Variant: variant, Checkpoint: c.String("checkpoint")}}
	if name := c.String("policy"); name != "" {
		if c.IsSet("checkpoint") {
			return p, exit.New(exit.Usage, errors.New("--policy and --checkpoint exclude each other"), "leave one out: a heuristic has no weights")
		}
		var err error
		if p, err = server.ProfileNamed(name); err != nil {
			return p, exit.New(exit.Usage, fmt.Errorf("--policy: %w", err), "")
		}
	}
	if c.IsSet("scheduler-name") {
		p.SchedulerName = c.String("scheduler-name")
	}
	return p, nil
}

// parseBlend parses NAME=WEIGHT.
func parseBlend(items []string) (map[string]int32, error) {
	out := map[string]int32{}
	for _, item := range items {
		name, weight, ok := strings.Cut(item, "=")
		w, err := strconv.ParseInt(weight, 10, 32)
		if !ok || err != nil || w < 1 || name == "" {
			return nil, exit.New(exit.Usage, fmt.Errorf("--blend %q: want NAME=WEIGHT with a weight of 1 or more", item),
				"for example --blend PodTopologySpread=2,NodeAffinity=2")
		}
		out[name] = int32(w)
	}
	return out, nil
}

// shareFlag leaves the network of a scheduler a share of the pods.
const shareFlag = "share"

// shareCategory is the heading of the flags in --help.
const shareCategory = "with --share"

// shareFlags returns --share and the flags that go with it.
func shareFlags() []ucli.Flag {
	return []ucli.Flag{
		&ucli.Float64Flag{Name: shareFlag, Category: shareCategory,
			Usage: "place this `SHARE` of the pods, at most 1, and the rest as the default scheduler would; stop if its pods fare worse"},
		&ucli.StringFlag{Name: "share-by", Category: shareCategory, Value: canary.ByOwner,
			Usage: "`WHAT` is drawn: owner (a Deployment, Job, … with all its pods) or namespace"},
	}
}

// checkShare refuses flags that have no effect or exclude each other.
func checkShare(c *ucli.Context) error {
	if !c.IsSet(shareFlag) {
		if c.IsSet("share-by") {
			return exit.New(exit.Usage, fmt.Errorf("--share-by has no effect without --%s", shareFlag), "add --"+shareFlag+" 0.05")
		}
		return nil
	}
	for name, hint := range map[string]string{
		"shadow": "watch first with --shadow, then place a share without it",
		"learn":  "a scheduler that learns decides about all its pods; learn first, then share",
	} {
		if c.Bool(name) {
			return exit.New(exit.Usage, fmt.Errorf("--%s and --%s exclude each other", shareFlag, name), hint)
		}
	}
	return nil
}

// takeShare gives the one profile its share. Without a --scheduler-name it takes the pods of the default scheduler.
func takeShare(c *ucli.Context, config *server.Config) error {
	if !c.IsSet(shareFlag) {
		return nil
	}
	if n := len(config.Profiles); n != 1 {
		return exit.New(exit.Usage, fmt.Errorf("--%s is for one profile, and --profiles names %d", shareFlag, n),
			"name one, or write a file for --config")
	}
	p := &config.Profiles[0]
	if !c.IsSet("scheduler-name") {
		p.SchedulerName = server.DefaultProfile
	}
	if c.Float64(shareFlag) == 0 {
		return exit.New(exit.Usage, fmt.Errorf("--%s is 0, must be more", shareFlag), "to place no pods, watch with --shadow")
	}
	p.Canary = &canary.Args{Of: c.Float64(shareFlag), By: c.String("share-by")}
	if err := config.Validate(); err != nil {
		return exit.New(exit.Usage, err, "see --help")
	}
	return nil
}

// usageFlags returns the flags.
func usageFlags() []ucli.Flag {
	return []ucli.Flag{
		&ucli.StringFlag{Name: "usage", Usage: "`SOURCE` of measured usage: " + usage.PrometheusSource + " or " + usage.MetricsAPISource +
			"; default: none, requests decide. Queries, certificates and a token stand in the file of --config"},
		&ucli.StringFlag{Name: "usage-address", Usage: "`URL` of Prometheus, such as https://prometheus:9090"},
	}
}

// usageConfig returns the flags' configuration of measured usage; nil if they name no source.
func usageConfig(c *ucli.Context) (*usage.Config, error) {
	if c.String("usage") == "" {
		for _, f := range usageFlags() {
			name := f.Names()[0]
			if c.IsSet(name) {
				return nil, exit.New(exit.Usage, fmt.Errorf("--%s without --usage", name),
					"say where usage comes from, for example --usage "+usage.PrometheusSource)
			}
		}
		return nil, nil
	}
	out := &usage.Config{Source: c.String("usage"), Server: promapi.Server{Address: c.String("usage-address")}}
	checked := *out // omitted values stay out of --print-config
	if err := checked.Default(); err != nil {
		return nil, exit.New(exit.Usage, err, "see --help")
	}
	return out, nil
}

// learnExamples are lines of the help.
func learnExamples(variant string) string {
	return runExample(variant, "--learn", "explore, and learn from every placement") +
		runExample(variant, "--learn --checkpoint my.safetensors", "start from this file and update it") +
		runExample(variant, "--learn --hidden-layers 16 --init-epsi 0.2", "start from random weights")
}

// initialWeights are weights that a learning scheduler starts from, in a file that does not exist
// yet.
type initialWeights struct {
	checkpoint *checkpoint.Checkpoint
	file       string
}

// learning makes a profile learn if the flags ask for it. It returns the weights to save before the scheduler starts, or nil if their file
// exists.
func learning(c *ucli.Context, p *server.Profile) (*initialWeights, error) {
	if err := learn.CheckScheduler(c); err != nil || !c.Bool(learn.Learn) {
		return nil, err
	}
	if p.Policy != "" {
		return nil, exit.New(exit.Usage, fmt.Errorf("--learn: the policy %s is a heuristic and does not learn", p.Policy), "leave --policy out")
	}
	if p.Checkpoint == "" {
		if c.String("log-dir") == "" {
			return nil, exit.New(exit.Usage, errors.New("--learn has no file to write the weights to"), "name one with --checkpoint")
		}
		p.Checkpoint = filepath.Join(c.String("log-dir"), "run"+p.Variant+"-learned.safetensors")
	}
	start, fresh, err := learn.StartFromFlags(c, p.Checkpoint, p.Variant)
	if hinted := new(exit.Error); err != nil && !errors.As(err, &hinted) || err == nil && !fresh {
		_, err = neural.Load(p.Checkpoint)
	}
	if err != nil {
		return nil, err
	}
	if err := setLearn(c, p); err != nil || !fresh {
		return nil, err
	}
	return &initialWeights{start, p.Checkpoint}, nil
}

// leastEpsilon is the share of random placements below which exploration does not fall.
const leastEpsilon = 0.01

// setLearn fills in the profile's arguments about learning.
func setLearn(c *ucli.Context, p *server.Profile) (err error) {
	p.Learn = &plugin.LearnArgs{InitEpsilon: c.Float64("init-epsi"), EpsilonDecay: c.Float64("epsi-decay")}
	p.Learn.FinalEpsilon = min(leastEpsilon, p.Learn.InitEpsilon)
	p.Learn.Trainer, err = trainerCommand(c, p)
	return err
}

// trainerCommand returns the command line of the trainer that the scheduler starts.
func trainerCommand(c *ucli.Context, p *server.Profile) ([]string, error) {
	program, err := cli.FindProgram("gnntrain")
	if err != nil {
		return nil, exit.New(exit.Usage, errors.New("--learn needs gnntrain, which is neither in the directory of this program nor in PATH"),
			"build it with `make trainer`")
	}
	out := []string{program, "--online", "--init", p.Checkpoint}
	if dir := c.String("log-dir"); dir != "" {
		out = append(out, "--events", filepath.Join(dir, "run"+p.Variant+"-online"))
	}
	return append(out, learn.TrainerArguments(c)...), nil
}
