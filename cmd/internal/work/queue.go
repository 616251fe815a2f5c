package work

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	ucli "github.com/urfave/cli/v2"

	"gnnsched/internal/exit"
	"gnnsched/internal/workers"
)

// queueFlags returns the flags.
func queueFlags() []ucli.Flag {
	return []ucli.Flag{
		&ucli.StringFlag{Name: "queue", Value: defaultDir(), DefaultText: "~/.cache/gnnsched/queue",
			Usage: "`FOLDER` of a queue of this machine, and of its token"},
		&ucli.StringFlag{Name: "tls-cert-file", Usage: "`FILE` with this process's certificate in PEM"},
		&ucli.StringFlag{Name: "tls-private-key-file", Usage: "`FILE` with its key in PEM"},
		&ucli.StringFlag{Name: "client-ca-file", Usage: "`FILE` with the CA of all certificates in PEM"},
	}
}

func defaultDir() string {
	base, err := os.UserCacheDir()
	if err != nil {
		base = os.TempDir()
	}
	return filepath.Join(base, "gnnsched", "queue")
}

// queueTLS returns the configuration of the flags; nil for none.
func queueTLS(c *ucli.Context) (*tls.Config, error) {
	files := workers.Certificates{Cert: c.String("tls-cert-file"), Key: c.String("tls-private-key-file"), CA: c.String("client-ca-file")}
	config, err := files.TLS()
	if err != nil {
		err = exit.New(exit.Usage, fmt.Errorf("certificates: %w", err),
			"give all of --tls-cert-file, --tls-private-key-file and --client-ca-file")
	}
	return config, err
}

// Environment variables with the name and password for a server. Other users of a machine see a command line, but not these.
const userEnv, passwordEnv = "NATS_USER", "NATS_PASSWORD"

// checkQueueURL refuses a URL with a password in it.
func checkQueueURL(url string) error {
	if strings.Contains(url, "@") {
		return exit.New(exit.Usage, errors.New("the URL of the NATS server has a name or password, which others see in lists of processes"),
			"leave it out, and set "+userEnv+" and "+passwordEnv+" in the environment")
	}
	return nil
}

// queueOptions returns how a command connects to a URL.
func queueOptions(c *ucli.Context, url string) (out []nats.Option, err error) {
	if err := checkQueueURL(url); err != nil {
		return nil, err
	}
	if user := os.Getenv(userEnv); user != "" {
		out = append(out, nats.UserInfo(user, os.Getenv(passwordEnv)))
	}
	tls, err := queueTLS(c)
	switch token, missing := workers.Token(c.String("queue")); {
	case err != nil:
		return nil, err
	case tls != nil:
		out = append(out, nats.Secure(tls))
	case !workers.Loopback(url): // the token is for this machine
	case missing == nil:
		out = append(out, token)
	case !errors.Is(missing, os.ErrNotExist): // a server may want no token
		return nil, exit.New(exit.Usage, missing, "name the folder of the queue with --queue")
	}
	return out, nil
}

// unreachable returns the error of a command that could not connect.
func unreachable(err error) error {
	hint := "start a queue with gnnsched work --listen, or correct the URL"
	var remote *net.OpError // what the server says of this process's certificate
	switch refused := new(jetstream.APIError); {
	case errors.Is(err, nats.ErrTLS), errors.As(err, &remote) && remote.Op == "remote error", errors.Is(err, nats.ErrSecureConnRequired):
		hint = "give --tls-cert-file, --tls-private-key-file and --client-ca-file of the server's authority, " +
			"and the URL with a name in the server's certificate"
	case errors.Is(err, nats.ErrNoResponders), errors.As(err, &refused):
		hint = "switch JetStream on at the server, and give it 2 GiB of storage"
	case errors.Is(err, nats.ErrAuthorization):
		hint = "name the folder of the queue on this machine with --queue, give certificates of its authority, or set " + userEnv + " and " +
			passwordEnv
	}
	return exit.New(exit.Unreachable, err, hint)
}
