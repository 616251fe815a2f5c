package explain

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	ucli "github.com/urfave/cli/v2"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/infer"
	"gnnsched/internal/cli"
	"gnnsched/internal/exit"
	"gnnsched/internal/quote"
	"gnnsched/scheduler/decision/record"
	"gnnsched/scheduler/explain"
)

// Command returns the command.
func Command() *ucli.Command {
	return &ucli.Command{
		Name:      "explain",
		Usage:     "say why a pod got its node, from the running scheduler or from a file of decisions",
		ArgsUsage: "pod/NAME",
		Description: "It asks the scheduler on this machine, with the token of the kubeconfig, or reads a file that a scheduler wrote\n" +
			"with --decision-log. It explains the pod's newest decision.\n\n" +
			"Examples:\n" +
			"   gnnsched explain pod/web-0                              # of a scheduler on this machine\n" +
			"   gnnsched explain -n shop --trace decisions.jsonl pod/web-0\n" +
			"   gnnsched explain --server https://10.0.0.7:10259 --ca-file ca.crt --token-file token pod/web-0",
		Flags: append(cli.ClusterFlags(),
			&ucli.StringFlag{Name: "namespace", Aliases: []string{"n"}, Value: "default", Usage: "`NAMESPACE` of the pod"},
			&ucli.StringFlag{Name: "trace", Usage: "read decisions from `FILE` instead of asking a scheduler"},
			&ucli.StringFlag{Name: "checkpoint", Usage: "`FILE` with the weights of the network that decided; not needed for those built into the program"},
			&ucli.StringFlag{Name: "server", Value: "https://127.0.0.1:10259", Usage: "`URL` of the scheduler's port"},
			&ucli.StringFlag{Name: "ca-file", Usage: "PEM `FILE` with the CA of the scheduler's certificate; without it, the certificate is not verified, and only a scheduler on this machine is asked"},
			&ucli.StringFlag{Name: "token-file", Usage: "`FILE` with a bearer token that may get " + record.Path + "; default: the kubeconfig's token"},
		),
		Action: run,
	}
}

func run(c *ucli.Context) error {
	name, is := strings.CutPrefix(c.Args().First(), "pod/")
	if !is || name == "" || c.NArg() != 1 {
		return exit.New(exit.Usage, errors.New("say which pod, as pod/NAME, after the flags"), "for example gnnsched explain -n default pod/web-0")
	}
	q := record.Query{Namespace: c.String("namespace"), Pod: name, Limit: 1}
	var r *record.Record
	var err error
	if path := c.String("trace"); path != "" {
		r, err = fromTrace(path, q)
	} else {
		r, err = fromServer(c, q)
	}
	if err != nil {
		return err
	}
	if r == nil {
		return exit.New(exit.Usage, fmt.Errorf("there is no decision about pod %s/%s", quote.Message(q.Namespace, 253), quote.Message(q.Pod, 253)),
			"the scheduler keeps the last ones only, see its flag --decisions; --decision-log keeps more for --trace")
	}
	net, err := networkOf(c.String("checkpoint"), r.Fingerprint)
	if err != nil {
		return err
	}
	return explain.Write(c.App.Writer, *r, net)
}

// fromTrace returns the newest record of a file that the query matches; nil if none does.
func fromTrace(path string, q record.Query) (newest *record.Record, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, exit.New(exit.Usage, fmt.Errorf("--trace: %w", err), "a scheduler writes the file with --decision-log")
	}
	defer f.Close()
	lines, faulty := bufio.NewScanner(f), error(nil)
	number, records := 0, 0
	lines.Buffer(nil, 2<<20)
	for lines.Scan() {
		if number++; len(lines.Bytes()) == 0 {
			continue
		}
		r, err := record.Parse(lines.Bytes())
		if err != nil { // a torn line of a writer that was killed, unless no line is a record
			faulty = fmt.Errorf("%s:%d: %w", path, number, err)
			continue
		}
		records++
		if r.Namespace == q.Namespace && r.Pod == q.Pod && (newest == nil || !r.Time.Before(newest.Time)) {
			newest = &r
		}
	}
	if err := lines.Err(); err != nil { // what follows may be newer
		return nil, exit.New(exit.Usage, fmt.Errorf("%s:%d: %w", path, number+1, err), "name a file that a scheduler wrote with --decision-log")
	}
	if records == 0 && faulty != nil {
		return nil, exit.New(exit.Usage, faulty, "name a file that a scheduler wrote with --decision-log")
	}
	return newest, nil
}

// maxAnswer bounds the bytes of a scheduler's answer that are read.
const maxAnswer = 4 << 20

// fromServer asks the running scheduler.
func fromServer(c *ucli.Context, q record.Query) (*record.Record, error) {
	client, err := clientOf(c)
	if err != nil {
		return nil, err
	}
	token, err := tokenOf(c)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(c.Context, 10*time.Second)
	defer cancel()
	at := strings.TrimSuffix(c.String("server"), "/") + record.Path + "?" + url.Values{"pod": {q.Namespace + "/" + q.Pod}, "limit": {"1"}}.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return nil, exit.New(exit.Usage, fmt.Errorf("--server: %w", err), "for example https://127.0.0.1:10259")
	}
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := client.Do(req)
	if err != nil {
		if c.Context.Err() != nil {
			return nil, c.Context.Err()
		}
		return nil, exit.New(exit.Unreachable, fmt.Errorf("ask the scheduler: %w", err), "is one running? --server names another one, --trace reads a file")
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, exit.New(exit.Unreachable, fmt.Errorf("ask the scheduler: %w", err), "")
	}
	switch resp.StatusCode {
	case http.StatusOK:
	case http.StatusNotFound:
		return nil, exit.New(exit.Usage, errors.New("the scheduler records no decisions"), "it was started with --decisions 0, or is an older version")
	case http.StatusUnauthorized, http.StatusForbidden:
		return nil, exit.New(exit.Usage, fmt.Errorf("the scheduler refuses the token: %s", resp.Status), "the user of the token needs the verb get on the path "+record.Path)
	default:
		return nil, exit.New(exit.Unreachable, fmt.Errorf("the scheduler answers %s: %s", resp.Status, quote.Message(string(body), 200)), "")
	}
	var page struct {
		Records []json.RawMessage `json:"records"`
	}
	if err := json.Unmarshal(body, &page); err != nil {
		return nil, exit.New(exit.Unreachable, fmt.Errorf("the answer is no page of decisions: %w", err), "does --server name a scheduler of gnnsched?")
	}
	if len(page.Records) == 0 {
		return nil, nil
	}
	r, err := record.Parse(page.Records[0])
	if err != nil {
		return nil, exit.New(exit.Unreachable, err, "are both programs of the same version?")
	}
	return &r, nil
}

// clientOf returns a client that verifies the scheduler's certificate, or talks to this machine only. It follows no
// redirect, which could carry the token elsewhere.
func clientOf(c *ucli.Context) (*http.Client, error) {
	u, err := url.Parse(c.String("server"))
	if err != nil || u.Scheme != "https" || u.Host == "" {
		return nil, exit.New(exit.Usage, fmt.Errorf("--server %q is not an address that begins with https://", c.String("server")), "for example https://127.0.0.1:10259")
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if path := c.String("ca-file"); path != "" {
		pem, err := os.ReadFile(path)
		if err != nil {
			return nil, exit.New(exit.Usage, fmt.Errorf("--ca-file: %w", err), "")
		}
		if config.RootCAs = x509.NewCertPool(); !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, exit.New(exit.Usage, fmt.Errorf("--ca-file %s has no certificate in PEM", path), "")
		}
	} else {
		if !onThisMachine(u.String()) {
			return nil, exit.New(exit.Usage, errors.New("a scheduler on another machine must prove who it is before it gets a token"), "name the CA of its certificate with --ca-file")
		}
		config.InsecureSkipVerify = true // the certificate is self-signed, and the connection does not leave loopback
	}
	return &http.Client{
		Transport:     &http.Transport{TLSClientConfig: config},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, nil
}

// onThisMachine reports whether an address is of the loopback interface.
func onThisMachine(address string) bool {
	u, err := url.Parse(address)
	if err != nil {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}

// tokenOf returns the token of --token-file, or the kubeconfig's. Any user of this machine can listen where no
// scheduler does, so without a CA the kubeconfig's token is only for a cluster on this machine.
func tokenOf(c *ucli.Context) (string, error) {
	path := c.String("token-file")
	if path == "" {
		rest, err := cli.Target(c).REST()
		if err != nil {
			return "", err
		}
		if c.String("ca-file") == "" && !onThisMachine(rest.Host) {
			return "", exit.New(exit.Usage, fmt.Errorf("the token for %s is not given to a scheduler whose certificate is not verified", rest.Host),
				"name its CA with --ca-file, or another token, which may only get "+record.Path+", with --token-file")
		}
		if rest.BearerToken != "" {
			return rest.BearerToken, nil
		}
		if path = rest.BearerTokenFile; path == "" {
			return "", exit.New(exit.Usage, errors.New("the kubeconfig has no token, and the scheduler accepts nothing else"), "make one with kubectl create token, and name its file with --token-file")
		}
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return "", exit.New(exit.Usage, fmt.Errorf("--token-file: %w", err), "")
	}
	return strings.TrimSpace(string(text)), nil
}

// networkOf returns the network with the fingerprint on any cluster's graph, from a file or from those that the program
// carries; nil if there is none.
func networkOf(path, fingerprint string) (*infer.Network, error) {
	if path != "" {
		c, err := checkpoint.Load(path)
		if err != nil {
			return nil, exit.New(exit.Checkpoint, fmt.Errorf("--checkpoint: %w", err), "")
		}
		if got := fmt.Sprintf("%016x", c.Fingerprint()); got != fingerprint {
			return nil, exit.New(exit.Checkpoint, fmt.Errorf("--checkpoint %s has the fingerprint %s, but %s decided", path, got, quote.Message(fingerprint, 40)), "name the file with the weights that decided")
		}
		return nodesOf(c)
	}
	for _, name := range checkpoint.ShippedNames() {
		if c, err := checkpoint.Shipped(name); err == nil && fmt.Sprintf("%016x", c.Fingerprint()) == fingerprint {
			return nodesOf(c)
		}
	}
	return nil, nil
}

// nodesOf returns the network on any cluster's graph; nil for a network on the GPU graph, of which records hold values.
func nodesOf(c *checkpoint.Checkpoint) (*infer.Network, error) {
	if c.Manifest.Architecture.Graph != checkpoint.ClusterGraph {
		return nil, nil
	}
	return infer.New(c)
}
