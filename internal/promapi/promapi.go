// Package promapi asks a Prometheus server.
package promapi

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/textproto"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/api"
	v1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"
	"github.com/rs/zerolog"
	ucli "github.com/urfave/cli/v2"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"gnnsched/internal/exit"
	"gnnsched/internal/files"
	"gnnsched/internal/kubeconfig"
)

const maxAnswer = 64 << 20 // bytes of one answer; 10,000 pods take about 2 MB

// Server says where a Prometheus server is and how to reach it.
type Server struct {
	// Address is the server's URL, such as https://prometheus:9090. It has no user and no password.
	Address string `json:"address,omitempty"`
	// CAFile, CertFile, KeyFile and TokenFile are files: in PEM the certificates that sign the server's certificate and the client's own
	// certificate and key, and a bearer token. All but CAFile are read again when they change.
	CAFile    string `json:"caFile,omitempty"`
	CertFile  string `json:"certFile,omitempty"`
	KeyFile   string `json:"keyFile,omitempty"`
	TokenFile string `json:"tokenFile,omitempty"`
	// HeadersFile has headers of each request, a line each, such as those of a tenant or of basic authentication. It is read again when it
	// changes.
	HeadersFile string `json:"headersFile,omitempty"`
	// ServerName is the name in the server's certificate, if it differs from the host of Address.
	ServerName string `json:"serverName,omitempty"`
	// ClusterLabel, NAME=VALUE, chooses the series of one cluster of several.
	ClusterLabel string `json:"clusterLabel,omitempty"`
}

// Validate returns the first fault of a server.
func (s Server) Validate() error {
	u, err := url.Parse(s.Address)
	switch {
	case err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "":
		return errors.New("address must be a URL such as https://prometheus:9090")
	case u.User != nil:
		return errors.New("address has a user or a password in it; write a token into tokenFile")
	case u.Scheme == "http" && s.TokenFile != "" && !loopback(u.Hostname()):
		return errors.New("a token is only sent over https, or to this machine")
	case u.Scheme == "http" && (s.CAFile != "" || s.CertFile != "" || s.KeyFile != "" || s.ServerName != ""):
		return errors.New("caFile, certFile, keyFile and serverName need an address with https")
	case (s.CertFile == "") != (s.KeyFile == ""):
		return errors.New("certFile and keyFile belong together")
	}
	if label, _, pair := strings.Cut(s.ClusterLabel, "="); s.ClusterLabel != "" && (!pair || !model.LegacyValidation.IsValidLabelName(label)) {
		return fmt.Errorf("cluster label %q: write it as cluster=east", s.ClusterLabel)
	}
	return nil
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// Client asks one server. Its methods may be called from several goroutines.
type Client struct {
	HTTP    *http.Client
	URL     string // without the path of the API
	matcher string // of the series of one cluster, such as cluster="east"; empty: all
	// Warn, if not nil, is called with each warning in an answer. A warning means that data may be missing from the answer.
	Warn func(string)
}

// New returns a client of a valid server. It reads the certificates.
func New(s Server) (*Client, error) {
	if err := files.Check(files.Text, s.CAFile, s.CertFile, s.KeyFile); err != nil {
		return nil, fmt.Errorf("certificates for %s: %w", s.Address, err)
	}
	transport, err := rest.TransportFor(&rest.Config{
		Host:            s.Address,
		TLSClientConfig: rest.TLSClientConfig{CAFile: s.CAFile, CertFile: s.CertFile, KeyFile: s.KeyFile, ServerName: s.ServerName},
	})
	if err != nil {
		return nil, fmt.Errorf("certificates for %s: %w", s.Address, err)
	}
	at, err := url.Parse(s.Address)
	if err != nil {
		return nil, err
	}
	headed := headed{transport, s, at}
	if _, err := headed.headers(); err != nil {
		return nil, fmt.Errorf("token or headers for %s: %w", s.Address, err)
	}
	c := &Client{HTTP: &http.Client{Transport: headed}, URL: strings.TrimSuffix(s.Address, "/")}
	if label, value, is := strings.Cut(s.ClusterLabel, "="); is {
		c.matcher = fmt.Sprintf("%s=%q", label, value)
	}
	return c, nil
}

// Query returns the vector that a query gives for a time; the zero time is now.
func (c *Client) Query(ctx context.Context, query string, at time.Time) (model.Vector, error) {
	value, err := c.ask(func(a v1.API) (model.Value, v1.Warnings, error) { return a.Query(ctx, c.narrow(query), at) })
	if err != nil {
		return nil, err
	}
	out, is := value.(model.Vector)
	if !is {
		return nil, errors.New("not a vector: a query must give one value for each node or pod")
	}
	if slices.Contains(out, nil) {
		return nil, errors.New("not an answer of Prometheus: it has an empty sample")
	}
	return out, nil
}

// Range returns a query's result for the times from, from + step, and so on up to to.
func (c *Client) Range(ctx context.Context, query string, from, to time.Time, step time.Duration) (model.Matrix, error) {
	value, err := c.ask(func(a v1.API) (model.Value, v1.Warnings, error) {
		return a.QueryRange(ctx, c.narrow(query), v1.Range{Start: from, End: to, Step: step})
	})
	if err != nil {
		return nil, err
	}
	out, is := value.(model.Matrix)
	if !is {
		return nil, errors.New("not a matrix: a query must give series")
	}
	if slices.Contains(out, nil) {
		return nil, errors.New("not an answer of Prometheus: it has an empty series")
	}
	return out, nil
}

// Refused is the error of a query that Prometheus received and will never answer, such as one over too many samples. Retrying does not
// help. A slow or unready server gives another error.
type Refused struct{ Why string }

func (r Refused) Error() string { return r.Why }

// ask sends one query.
func (c *Client) ask(query func(v1.API) (model.Value, v1.Warnings, error)) (model.Value, error) {
	client := *c.HTTP
	client.Transport = limited{client.Transport}
	server, err := api.NewClient(api.Config{Address: c.URL, Client: &client})
	if err != nil {
		return nil, err
	}
	value, warnings, err := query(v1.NewAPI(server))
	var said *v1.Error
	var long *http.MaxBytesError
	var connection *url.Error
	switch {
	case errors.As(err, &said):
		return nil, refusal(said)
	case errors.As(err, &long):
		return nil, Refused{fmt.Sprintf("the answer is longer than %d MB", maxAnswer>>20)}
	case errors.As(err, &connection):
		return nil, err
	case err != nil:
		return nil, fmt.Errorf("not an answer of Prometheus: %w", err)
	}
	if c.Warn != nil {
		for _, w := range warnings {
			c.Warn(w)
		}
	}
	return value, nil
}

// refusal returns the error for an error answer of Prometheus: a Refused if repeating the query does not help.
func refusal(e *v1.Error) error {
	why := fmt.Errorf("Prometheus says %.200q", e.Msg)
	switch e.Type {
	case v1.ErrBadData, v1.ErrExec, "not_found", "not_acceptable":
		return Refused{why.Error()}
	case v1.ErrBadResponse:
		return fmt.Errorf("not an answer of Prometheus: %.200s", e.Msg)
	case v1.ErrClient, v1.ErrServer: // the message is the status
		return fmt.Errorf("%s: %.200q", e.Msg, e.Detail)
	}
	return why
}

// limited lets no answer be longer than maxAnswer.
type limited struct{ next http.RoundTripper }

func (l limited) RoundTrip(r *http.Request) (*http.Response, error) {
	next := l.next
	if next == nil {
		next = http.DefaultTransport
	}
	answer, err := next.RoundTrip(r)
	if err == nil {
		answer.Body = http.MaxBytesReader(nil, answer.Body, maxAnswer)
	}
	return answer, err
}

// NodeNames returns the possible names and addresses of a series' node, the best first.
func NodeNames(m model.Metric) (names []string) {
	for _, label := range []model.LabelName{"node", "node_name", "kubernetes_node", "nodename", "exported_instance", "instance"} {
		value := string(m[label])
		if value == "" {
			continue
		}
		names = append(names, value)
		if host, _, err := net.SplitHostPort(value); err == nil {
			names = append(names, host)
		}
	}
	return names
}

// Poll asks at an interval. It is not safe for concurrent use.
type Poll struct {
	Interval time.Duration
	Timeout  time.Duration // after which one question is given up
	Clock    clock.WithTicker

	failing bool
}

// Run asks at once and then at every interval, until ctx is done.
func (p *Poll) Run(ctx context.Context, ask func(context.Context)) {
	ticker := p.Clock.NewTicker(p.Interval)
	defer ticker.Stop()
	for ctx.Err() == nil {
		ask(ctx)
		select {
		case <-ticker.C():
		case <-ctx.Done():
		}
	}
}

// errSlow is part of an error after the timeout.
var errSlow = errors.New("no answer within the timeout")

// Ask calls ask once, within the timeout. changed reports that it failed after a success, or succeeded after a failure. If ctx is done, Ask
// returns its error.
func (p *Poll) Ask(ctx context.Context, ask func(context.Context) error) (changed bool, err error) {
	err = p.within(ctx, ask)
	if ctx.Err() != nil {
		return false, ctx.Err()
	}
	changed = p.failing != (err != nil)
	p.failing = err != nil
	return changed, err
}

func (p *Poll) within(ctx context.Context, ask func(context.Context) error) error {
	within, cancel := context.WithCancelCause(ctx)
	timer := p.Clock.NewTimer(p.Timeout)
	defer timer.Stop()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		select {
		case <-timer.C():
			cancel(errSlow)
		case <-within.Done():
		}
	}()
	err := ask(within)
	if err != nil && errors.Is(context.Cause(within), errSlow) {
		err = errors.Join(errSlow, err)
	}
	cancel(nil)
	<-ended
	return err
}

// maxWarnings is the number of different warnings of Prometheus that are logged.
const maxWarnings = 20

// Flags returns the flags for the connection to the server of --prometheus. Each name begins with the prefix.
func Flags(prefix string) []ucli.Flag {
	return []ucli.Flag{
		&ucli.StringFlag{Name: prefix + "ca-file", Usage: "PEM `FILE` with the certificates that sign Prometheus' certificate"},
		&ucli.StringFlag{Name: prefix + "cert-file", Usage: "PEM `FILE` with a client certificate for Prometheus and its key"},
		&ucli.StringFlag{Name: prefix + "token-file", Usage: "`FILE` with a bearer token for Prometheus"},
		&ucli.StringFlag{Name: prefix + "headers-file", Usage: "`FILE` with headers for Prometheus, a line each, such as X-Scope-OrgID: team"},
		&ucli.StringFlag{Name: "cluster-label", Usage: "with --prometheus, read the series with this `NAME=VALUE` only, as of one cluster of several"},
	}
}

// serverFromFlags returns the server of --prometheus.
func serverFromFlags(c *ucli.Context, prefix string) Server {
	return Server{
		Address: c.String("prometheus"), CAFile: c.String(prefix + "ca-file"),
		CertFile: c.String(prefix + "cert-file"), KeyFile: c.String(prefix + "cert-file"),
		TokenFile: c.String(prefix + "token-file"), HeadersFile: c.String(prefix + "headers-file"), ClusterLabel: c.String("cluster-label"),
	}
}

// Explain gives an error of the server of --prometheus its exit code and next step: exit.Usage if the flags do not fit what answers,
// else exit.Unreachable.
func Explain(err error, prefix string) *exit.Error {
	settings := kubeconfig.TLSSettings{
		Address: "--prometheus", Authority: "--" + prefix + "ca-file", ClientCertificate: "--" + prefix + "cert-file",
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
	hint := fmt.Sprintf("files are those of --%[1]sca-file, --%[1]scert-file, --%[1]stoken-file and --%[1]sheaders-file", prefix)
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

// headed adds the token and the headers of a server to requests. A redirect to another server, or from https to http, is followed without
// them.
type headed struct {
	next http.RoundTripper
	of   Server
	at   *url.URL // Address
}

// RoundTrip implements http.RoundTripper.
func (h headed) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Host != h.at.Host || r.URL.Scheme != h.at.Scheme && r.URL.Scheme == "http" {
		return h.next.RoundTrip(r)
	}
	headers, err := h.headers()
	if err != nil {
		return nil, err
	}
	r = r.Clone(r.Context())
	for name, values := range headers {
		r.Header[name] = values
	}
	return h.next.RoundTrip(r)
}

// CloseIdleConnections is for http.Client's method of that name.
func (h headed) CloseIdleConnections() { utilnet.CloseIdleConnectionsFor(h.next) }

// headers reads the files.
func (h headed) headers() (http.Header, error) {
	out := http.Header{}
	if h.of.HeadersFile != "" {
		text, err := files.Read(h.of.HeadersFile, files.Text)
		if err != nil {
			return nil, err
		}
		lines := textproto.NewReader(bufio.NewReader(bytes.NewReader(append(bytes.TrimSpace(text), "\r\n\r\n"...))))
		read, err := lines.ReadMIMEHeader()
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("%s: %w; write lines such as X-Scope-OrgID: team", h.of.HeadersFile, err)
		}
		out = http.Header(read)
	}
	if h.of.TokenFile != "" {
		token, err := files.Read(h.of.TokenFile, files.Text)
		if err != nil {
			return nil, err
		}
		out.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	}
	if out.Get("Authorization") != "" && h.at.Scheme == "http" && !loopback(h.at.Hostname()) {
		return nil, errors.New("authorization is only sent over https, or to this machine")
	}
	return out, nil
}

// series matches the names of exporters' series, and the brace of their matchers.
var series = regexp.MustCompile(`\b(kube_(?:pod|node)_\w+|(?:container|node|pod|kepler|istio)_\w+_(?:total|bytes|sum|watts))\b(\{?)`)

// narrow adds the matcher of one cluster to the series of a query.
func (c *Client) narrow(query string) string {
	if c.matcher == "" {
		return query
	}
	query = strings.ReplaceAll(query, "{__name__", "{"+c.matcher+",__name__")
	return series.ReplaceAllStringFunc(query, func(s string) string {
		if name, open := strings.CutSuffix(s, "{"); open {
			return name + "{" + c.matcher + ","
		}
		return s + "{" + c.matcher + "}"
	})
}
