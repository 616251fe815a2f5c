package promapi

import (
	"fmt"

	"github.com/rs/zerolog"
	ucli "github.com/urfave/cli/v2"

	"gnnsched/internal/exit"
	"gnnsched/internal/kubeconfig"
)

// maxWarnings is the number of different warnings of Prometheus that are logged.
const maxWarnings = 20

// Flags returns the flags for the connection to the server of --prometheus. Each name begins with the prefix.
func Flags(prefix string) []ucli.Flag {
	return []ucli.Flag{
		&ucli.StringFlag{Name: prefix + "ca-file", Usage: "PEM `FILE` with the certificates that sign Prometheus' certificate"},
		&ucli.StringFlag{Name: prefix + "cert-file", Usage: "PEM `FILE` with a client certificate for Prometheus"},
		&ucli.StringFlag{Name: prefix + "key-file", Usage: "PEM `FILE` with the key of the client certificate"},
		&ucli.StringFlag{Name: prefix + "server-name", Usage: "`NAME` in Prometheus' certificate, if it is not that of the URL"},
		&ucli.StringFlag{Name: prefix + "token-file", Usage: "`FILE` with a bearer token for Prometheus"},
	}
}

// serverFromFlags returns the server of --prometheus.
func serverFromFlags(c *ucli.Context, prefix string) Server {
	return Server{
		Address: c.String("prometheus"), CAFile: c.String(prefix + "ca-file"),
		CertFile: c.String(prefix + "cert-file"), KeyFile: c.String(prefix + "key-file"),
		TokenFile: c.String(prefix + "token-file"), ServerName: c.String(prefix + "server-name"),
	}
}

// Explain gives an error of the server of --prometheus its exit code and next step: exit.Usage if the flags do not fit what answers,
// else exit.Unreachable.
func Explain(err error, prefix string) *exit.Error {
	settings := kubeconfig.TLSSettings{
		Address: "--prometheus", Authority: "--" + prefix + "ca-file", ServerName: "--" + prefix + "server-name",
		ClientCertificate: "--" + prefix + "cert-file",
	}
	fault, explained := settings.Explain(err)
	switch {
	case fault.Misfit:
		return exit.New(exit.Usage, err, fault.Hint)
	case explained:
		return exit.New(exit.Unreachable, err, fault.Hint)
	}
	return exit.New(exit.Unreachable, err,
		"Prometheus must answer at this URL and scrape kube-state-metrics; docs/how-to/record.md names the series")
}

// ClientFromFlags returns a client of the server of --prometheus. It logs each of the server's warnings once.
func ClientFromFlags(c *ucli.Context, prefix string, log zerolog.Logger) (*Client, error) {
	server := serverFromFlags(c, prefix)
	hint := fmt.Sprintf("files and names are those of --%[1]sca-file, --%[1]scert-file, --%[1]skey-file, "+
		"--%[1]sserver-name and --%[1]stoken-file", prefix)
	if err := server.Validate(); err != nil {
		return nil, exit.New(exit.Usage, fmt.Errorf("--prometheus: %w", err), hint)
	}
	client, err := New(server)
	if err != nil {
		return nil, exit.New(exit.Usage, err, hint)
	}
	warned := map[string]bool{}
	client.Warn = func(w string) {
		if !warned[w] && len(warned) < maxWarnings { // the same for each query, mostly
			warned[w] = true
			log.Warn().Str("prometheus", w).Msg("Prometheus warns; the record may lack what it warns of")
		}
	}
	return client, nil
}
