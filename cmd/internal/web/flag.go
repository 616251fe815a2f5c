package web

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"

	ucli "github.com/urfave/cli/v2"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	"gnnsched/internal/exit"
	"gnnsched/scheduler/plugin"
	"gnnsched/scheduler/shadow"
	measured "gnnsched/scheduler/usage"
)

// Flag is the name of the schedulers' flag.
const Flag = "http"

// Flags returns the flags of a scheduler that serves the page.
func Flags() []ucli.Flag {
	return []ucli.Flag{
		&ucli.StringFlag{Name: Flag, Usage: "serve a page for a browser at `ADDRESS`, a port or 127.0.0.1:PORT; 0 for any free port. " +
			"It prints the link"},
	}
}

// Check returns an error with exit code 2 if the flag's value is wrong.
func Check(c *ucli.Context) error {
	if !c.IsSet(Flag) {
		return nil
	}
	_, err := addressOf(c.String(Flag))
	return err
}

// Shown is the cluster and the scheduler that the page shows.
type Shown struct {
	Title     string // names the cluster
	Client    kubernetes.Interface
	Recording plugin.Recording // of the scheduler; may hold nothing
	// Shadow returns the findings so far of a shadow scheduler; nil for a scheduler that places pods.
	Shadow func(context.Context) (shadow.Live, error)
}

// Serve starts the page if the flag is set. stop ends it.
func Serve(c *ucli.Context, of Shown) (stop func(), err error) {
	if !c.IsSet(Flag) {
		return func() {}, nil
	}
	address, err := addressOf(c.String(Flag))
	if err != nil {
		return nil, err
	}
	return start(c.Context, config{
		Address: address, Title: of.Title, Client: of.Client, Book: of.Recording.Book, Curves: of.Recording.Curves, Shadow: of.Shadow,
		Usage: measured.Reports, Checkpoint: c.String("checkpoint"),
		Log: klog.Background(), Out: c.App.ErrWriter,
	})
}

// addressOf returns HOST:PORT of the flag's value, in which the host may be missing. Other hosts than loopback are usage
// errors.
func addressOf(text string) (string, error) {
	host, port := "", text
	if strings.Contains(text, ":") {
		var err error
		if host, port, err = net.SplitHostPort(text); err != nil {
			return "", exit.New(exit.Usage, fmt.Errorf("--%s %q is no address", Flag, text), "for example --http 8080 or --http 127.0.0.1:8080")
		}
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
		return "", exit.New(exit.Usage, fmt.Errorf("--%s %q: the port must be 1 to 65535, or 0 for any", Flag, text), "for example --http 8080")
	}
	host = cmp.Or(host, "127.0.0.1")
	if !loopback(host) {
		return "", exit.New(exit.Usage, fmt.Errorf("--%s serves on this machine only, and %q is not loopback", Flag, host),
			fmt.Sprintf("serve on loopback, and reach it with `ssh -L %s:127.0.0.1:%s HOST` or `kubectl port-forward POD %s`", port, port, port))
	}
	return net.JoinHostPort(host, port), nil
}

// loopback reports whether a host, without a port, is this machine's loopback interface.
func loopback(host string) bool {
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}
