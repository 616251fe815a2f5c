package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"github.com/rs/zerolog"
	ucli "github.com/urfave/cli/v2"
	"k8s.io/client-go/dynamic"
	"k8s.io/utils/clock"

	"gnnsched/internal/cli"
	"gnnsched/internal/exit"
	"gnnsched/internal/kubeconfig"
	"gnnsched/scheduler/advise"
	"gnnsched/scheduler/policy/neural"
	"gnnsched/scheduler/policy/preference"
	"gnnsched/scheduler/serve"
	"gnnsched/scheduler/server"
)

// serveCommand returns the command.
func serveCommand() *ucli.Command {
	return &ucli.Command{
		Name:  "serve",
		Usage: "suggest nodes for pods over HTTPS: as an extender of a stock kube-scheduler, or to programs that ask",
		Description: "For clusters whose scheduler cannot be replaced. It reads the cluster and changes nothing. A kube-scheduler with\n" +
			"the printed configuration places by the network; if the answer fails, is late or refused, it decides alone.\n" +
			"Everything is served over HTTPS, to callers with a client certificate or a bearer token. Without files of your\n" +
			"own, on loopback only, it makes certificates and a token, and keeps them in --cert-dir.\n\n" +
			"Examples:\n" +
			"   gnnsched serve                                           # on the simulated cluster, for development\n" +
			"   gnnsched serve --print-extender-config > scheduler.yaml  # what kube-scheduler --config reads\n" +
			"   gnnsched serve --print-rbac | kubectl apply -f -         # the rights that it needs: it only reads\n" +
			"   gnnsched serve --policy linear-pack --preferences declared\n" +
			"   gnnsched serve --bind-address 0.0.0.0 --tls-cert-file tls.crt --tls-private-key-file tls.key \\\n" +
			"      --client-ca-file ca.crt --allowed-names system:kube-scheduler\n" +
			"   kubectl create -f pod.yaml --dry-run=server -o json | curl --cacert DIR/ca.crt --cert DIR/client.crt --key DIR/client.key \\\n" +
			"      -H 'Content-Type: application/json' --data-binary @- https://127.0.0.1:10270/v1/suggestions",
		Flags: cli.Grouped(append(append(cli.ClusterFlags(), serveFlags()...), cli.LogFlags()...),
			cli.Group{Heading: "certificates and tokens",
				Flags: "tls-cert-file tls-private-key-file client-ca-file token-auth-file allowed-names cert-dir"},
			cli.Group{Heading: "limits", Flags: "deadline request-timeout promise"},
			cli.Group{Heading: "manifests", Flags: "url namespace"},
			cli.Group{Heading: "GPUs", Flags: "workload"}),
		Action: cli.FlagsOnly(runServe),
	}
}

func serveFlags() []ucli.Flag {
	return []ucli.Flag{
		&ucli.StringFlag{Name: "scheduler-name", Value: server.DefaultProfile,
			Usage: "`NAME` that the pods of the asking scheduler have as schedulerName"},
		&ucli.StringFlag{Name: "network", Value: "gnn", Usage: "`NAME` of a shipped network"},
		&ucli.StringFlag{Name: "checkpoint", Usage: "`FILE` with the weights of a network instead. A file that changes is loaded again"},
		&ucli.StringFlag{Name: "policy", Usage: "`NAME` of a policy that decides instead of the network, as for rungnn"},
		&ucli.StringFlag{Name: "workload", Usage: "pod list `FILE` in openb format with the typical pods, for networks and policies for GPUs"},
		&ucli.StringFlag{Name: "preferences", Value: string(preference.First),
			Usage: "how preferences of manifests count, `MODE` first, declared or off"},
		&ucli.DurationFlag{Name: "deadline", Value: 100 * time.Millisecond,
			Usage: "`TIME` that one pass of the network may take; after it, the asking scheduler decides"},
		&ucli.StringFlag{Name: "bind-address", Value: "127.0.0.1", Usage: "IP `ADDRESS` to answer on"},
		&ucli.IntFlag{Name: "port", Value: 10270, Usage: "`PORT` to answer on (HTTPS)"},
		&ucli.StringFlag{Name: "tls-cert-file", Usage: "`FILE` with the server's certificate in PEM; read again when it changes"},
		&ucli.StringFlag{Name: "tls-private-key-file", Usage: "`FILE` with its key in PEM"},
		&ucli.StringFlag{Name: "client-ca-file", Usage: "`FILE` with the CA of client certificates in PEM; read again when it changes"},
		&ucli.StringFlag{Name: "token-auth-file",
			Usage: "CSV `FILE` of bearer tokens, as kube-apiserver reads it: token,user,uid; read at the start only"},
		&ucli.StringSliceFlag{Name: "allowed-names",
			Usage: "common `NAMES` of certificates and users of tokens that may ask; default: all that are verified"},
		&ucli.StringFlag{Name: "cert-dir", Value: filepath.Join(filepath.Dir(kubeconfig.SimulatedDir()), "serve"),
			DefaultText: "~/.local/share/gnnsched/serve, or gnnsched/serve in $XDG_DATA_HOME",
			Usage:       "`DIR`ectory of the certificates and the token that it makes if no files are named"},
		&ucli.DurationFlag{Name: "request-timeout", Value: 500 * time.Millisecond,
			Usage: "`TIME` that an answer may take; after it, the asking scheduler decides"},
		&ucli.DurationFlag{Name: "promise", Value: 5 * time.Second,
			Usage: "`TIME` that a pod counts on the node that is best for it, until the cluster shows it bound; 0 for never"},
		&ucli.BoolFlag{Name: "print-extender-config", Usage: "print the KubeSchedulerConfiguration of the asking scheduler and exit"},
		&ucli.StringFlag{Name: "url", Usage: "`URL` at which the asking scheduler reaches the server, for --print-extender-config; " +
			"default: address and port"},
		&ucli.BoolFlag{Name: "print-rbac", Usage: "print the ServiceAccount and the ClusterRole with the rights to read, and exit"},
		&ucli.StringFlag{Name: "namespace", Aliases: []string{"n"}, Value: "kube-system",
			Usage: "`NAMESPACE` of the ServiceAccount, for --print-rbac"},
	}
}

func runServe(c *ucli.Context) error {
	switch {
	case c.Bool("print-rbac"):
		return cli.Written(c)(serve.Role{Name: serve.RoleName, Namespace: c.String("namespace")}.RBAC())
	case c.Bool("print-extender-config"):
		if u, err := url.Parse(c.String("url")); err != nil || c.String("url") != "" && (u.Scheme != "https" || u.Host == "") {
			return exit.New(exit.Usage, fmt.Errorf("--url %q is not an address that begins with https://", c.String("url")),
				"for example https://gnnsched.kube-system:10270")
		}
		return cli.Written(c)(extender(c).YAML())
	}
	p, err := servedProfile(c)
	if err != nil {
		return err
	}
	config, own, err := serving(c)
	if err != nil {
		return err
	}
	log, closer, err := cli.Log(c, "serve", false)
	if err != nil {
		return err
	}
	defer closer.Close()
	return startServing(c, p, config, sayer{log, own})
}

// startServing answers until the context ends.
func startServing(c *ucli.Context, p server.Profile, config serve.Config, say sayer) error {
	ctx, cancel := context.WithCancel(c.Context)
	defer cancel()
	client, rest, err := cli.Target(c).Connect(ctx)
	if err != nil {
		return err
	}
	named, err := dynamic.NewForConfig(rest)
	if err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	a, err := advise.New(ctx, advise.Config{
		Client: client, Dynamic: named, Profile: p, Promise: c.Duration("promise"), Clock: clock.RealClock{},
	})
	if err != nil {
		return exit.New(exit.Usage, err, "see --help")
	}
	defer func() {
		cancel()
		a.Wait() // its informers log
	}()
	s, err := serve.New(config, a)
	if err != nil {
		return err
	}
	if err := kubeconfig.Require(ctx, client, "`gnnsched serve --print-rbac` prints the rights", serve.Rules()...); err != nil {
		return err
	}
	if err := say.hello(s.Address(), rest.Host, config); err != nil {
		return err
	}
	if err = s.Run(ctx); err == nil {
		say.log.Info().Msg("stopped")
	}
	return err
}

// servedProfile returns what decides. It reads the checkpoint, because the server would only refuse to answer if it could not.
func servedProfile(c *ucli.Context) (server.Profile, error) {
	p := server.Profile{Args: server.Args{Variant: c.String("network"), Checkpoint: c.String("checkpoint")}}
	if preference.Mode(c.String("preferences")) == preference.Blend {
		return p, exit.New(exit.Usage, errors.New("--preferences blend: the asking scheduler adds its own scores"),
			"choose first, declared or off, and lower the extender's weight in the printed configuration")
	}
	if name := c.String("policy"); name != "" {
		if c.IsSet("network") || c.IsSet("checkpoint") {
			return p, exit.New(exit.Usage, errors.New("--policy excludes --network and --checkpoint"), "keep one of them")
		}
		var err error
		if p, err = server.ProfileNamed(name); err != nil {
			return p, exit.New(exit.Usage, fmt.Errorf("--policy: %w", err), "")
		}
	}
	p.SchedulerName, p.Deadline.Duration = c.String("scheduler-name"), c.Duration("deadline")
	p.Preferences, p.Workload = preference.Mode(c.String("preferences")), c.String("workload")
	if err := (server.Config{Profiles: []server.Profile{p}, QPS: 1}).Validate(); err != nil {
		return p, exit.New(exit.Usage, err, "see --help")
	}
	if p.Checkpoint != "" {
		if _, err := neural.Load(p.Checkpoint); err != nil {
			return p, err
		}
	}
	return p, nil
}

// serving returns the addresses and clients to answer. own is nil if the files are the user's.
func serving(c *ucli.Context) (config serve.Config, own *serve.Credentials, err error) {
	config = serve.Config{
		Address: c.String("bind-address"), Port: c.Int("port"),
		CertFile: c.String("tls-cert-file"), KeyFile: c.String("tls-private-key-file"),
		ClientCAFile: c.String("client-ca-file"), TokenFile: c.String("token-auth-file"), AllowedNames: c.StringSlice("allowed-names"),
		Timeout: c.Duration("request-timeout"), InFlight: 16, MaxBytes: 16 << 20,
	}
	if d := c.Duration("promise"); d < 0 {
		return config, nil, exit.New(exit.Usage, fmt.Errorf("--promise is %v", d), "choose 0 for never, or more, for example 5s")
	}
	if config.CertFile+config.KeyFile+config.ClientCAFile+config.TokenFile != "" { // the user named files
		return config, nil, config.Validate()
	}
	if ip := net.ParseIP(config.Address); ip == nil || !ip.IsLoopback() {
		return config, nil, exit.New(exit.Usage, fmt.Errorf("certificates of its own are for loopback, not for %q", config.Address),
			"name --tls-cert-file, --tls-private-key-file, and --client-ca-file or --token-auth-file")
	}
	made, err := serve.NewCredentials(c.String("cert-dir"), time.Now())
	if err != nil {
		return config, nil, err
	}
	config.CertFile, config.KeyFile, config.ClientCAFile, config.TokenFile = made.CertFile, made.KeyFile, made.CAFile, made.TokenFile
	return config, &made, config.Validate()
}

// The paths that --print-extender-config has on the kube-scheduler's machine when the server's files are the user's.
const (
	placeCA   = "/etc/kubernetes/gnnsched/ca.crt"
	placeCert = "/etc/kubernetes/gnnsched/client.crt"
	placeKey  = "/etc/kubernetes/gnnsched/client.key"
)

// extender describes the extender for the asking scheduler. That waits a little longer than an answer may take.
func extender(c *ucli.Context) serve.Extender {
	e := serve.Extender{
		URL: strings.TrimSuffix(c.String("url"), "/"), Timeout: c.Duration("request-timeout") + c.Duration("request-timeout")/2,
	}
	e.URL = cmp.Or(e.URL, fmt.Sprintf("https://%s", net.JoinHostPort(c.String("bind-address"), fmt.Sprint(c.Int("port")))))
	e.CAFile, e.CertFile, e.KeyFile = placeCA, placeCert, placeKey
	if c.String("tls-cert-file") == "" {
		made := serve.CredentialsIn(c.String("cert-dir"))
		e.CAFile, e.CertFile, e.KeyFile = made.CAFile, made.ClientCert, made.ClientKey
	}
	return e
}

// sayer tells at the start how to ask.
type sayer struct {
	log zerolog.Logger
	own *serve.Credentials // nil if the files are the user's
}

func (s sayer) hello(address, cluster string, c serve.Config) error {
	print, err := serve.Fingerprint(c.CertFile)
	if err != nil {
		return err
	}
	if s.own != nil {
		verb := "using"
		if s.own.Fresh {
			verb = "made"
		}
		s.log.Warn().Str("ca", s.own.CAFile).Str("client_cert", s.own.ClientCert).Str("client_key", s.own.ClientKey).
			Str("tokens", s.own.TokenFile).
			Msg(verb + " certificates and a token of its own, for development on this machine; name --tls-cert-file and --client-ca-file elsewhere")
	}
	s.log.Info().Str("url", "https://"+address).Str("sha256", print).Str("cluster", cluster).
		Msg("answering; `gnnsched serve --print-extender-config` prints what kube-scheduler needs; Ctrl-C stops")
	return nil
}

func healthcheckCommand() *ucli.Command {
	return &ucli.Command{
		Name:  "healthcheck",
		Usage: "ask a running scheduler whether it is ready; exit 0 if so, 3 if not",
		Description: "For health checks of containers that hold no other program. It sends nothing secret and does not verify\n" +
			"the scheduler's certificate, which is self-signed.\n\n" +
			"Examples:\n" +
			"   gnnsched healthcheck                                           # is it ready: caches filled, scheduling?\n" +
			"   gnnsched healthcheck --url https://127.0.0.1:10259/healthz     # is it alive?",
		Flags: []ucli.Flag{
			&ucli.StringFlag{Name: "url", Value: "https://127.0.0.1:10259/readyz", Usage: "`URL` that answers with status 200 if all is well"},
			&ucli.DurationFlag{Name: "timeout", Value: 5 * time.Second, Usage: "`TIME` to wait for the answer"},
		},
		Action: cli.FlagsOnly(func(c *ucli.Context) error {
			u, err := url.Parse(c.String("url"))
			if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
				return exit.Usagef("--url %q is not an http or https URL", c.String("url"))
			}
			return server.CheckHealth(c.Context, u, c.Duration("timeout"), c.App.Writer)
		}),
	}
}
