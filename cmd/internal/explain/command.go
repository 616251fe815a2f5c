package explain

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	ucli "github.com/urfave/cli/v2"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/infer"
	"gnnsched/internal/cli"
	"gnnsched/internal/exit"
	"gnnsched/internal/files"
	"gnnsched/internal/kubeconfig"
	"gnnsched/scheduler/decision"
	"gnnsched/scheduler/plugin/learningcurve"
	"gnnsched/scheduler/shadow"
	"gnnsched/scheduler/usage"
)

// Command returns the command.
func Command() *ucli.Command {
	return &ucli.Command{
		Name:      "explain",
		Usage:     "say why a pod got its node, from the running scheduler, a file of decisions or a recorded cluster",
		ArgsUsage: "pod/NAME",
		Description: "It asks the scheduler on this machine, with the token of the kubeconfig, or reads a file that a scheduler wrote\n" +
			"with --decision-log. It explains the pod's newest decision.\n\n" +
			"With --record it says where a profile would have sent a pod of a recorded cluster, whichever scheduler placed it.\n\n" +
			"Examples:\n" +
			"   gnnsched explain pod/web-0                              # of a scheduler on this machine\n" +
			"   gnnsched explain -o json pod web-0 | jq .best           # the decision itself\n" +
			"   gnnsched explain -n shop --trace decisions.jsonl pod/web-0\n" +
			"   gnnsched explain -n shop --record prod.record --profile linear pod/web-0\n" +
			"   gnnsched explain --server https://10.0.0.7:10259 --ca-file ca.crt --token-file token pod/web-0",
		Flags: slices.Concat(cli.ClusterFlags(), []ucli.Flag{
			&ucli.StringFlag{Name: "namespace", Aliases: []string{"n"}, Value: "default", Usage: "`NAMESPACE` of the pod"},
			&ucli.StringFlag{Name: "trace", Usage: "read decisions from `FILE` instead of asking a scheduler"},
			&ucli.StringFlag{Name: "record", Usage: "ask what --profile would have done with the pod in the recorded cluster of a folder `DIR`"},
			&ucli.StringFlag{Name: "profile", Aliases: []string{"p"}, Value: "gnn",
				Usage: "`NAME` of the profile that decides with --record: a network or a policy, as in rungnn"},
			&ucli.StringFlag{Name: "output", Aliases: []string{"o"}, Value: "text",
				Usage: "`FORMAT`: text, or json for the decision as --decision-log writes it"},
			&ucli.StringFlag{Name: "checkpoint", Usage: "`FILE` with the weights of the network that decided, if they are not built in; " +
				"with --record, what decides in place of --profile"},
		}, serverFlags()),
		Action: run,
	}
}

func run(c *ucli.Context) error {
	name, is := strings.CutPrefix(strings.Join(c.Args().Slice(), "/"), "pod/")
	if !is || name == "" || strings.Contains(name, "/") {
		return exit.New(exit.Usage, errors.New("say which pod, as pod/NAME or pod NAME"), "for example gnnsched explain -n default pod/web-0")
	}
	format, err := cli.Format(c, []string{"text", "json"})
	if err != nil {
		return err
	}
	q := decision.Query{Namespace: c.String("namespace"), Pod: name, Limit: 1}
	var r *decision.Record
	moved := ""
	switch dir, path := c.String("record"), c.String("trace"); {
	case dir != "":
		r, err = fromRecord(c, dir, q)
	case c.IsSet("profile"):
		err = exit.Usagef("--profile has no effect without --record")
	case path != "":
		r, err = fromTrace(path, q)
	default:
		r, err = fromServer(c, q)
		if !c.IsSet("token-file") { // else there may be no kubeconfig
			if client, _, err := cli.Target(c).Connect(c.Context); err == nil {
				moved = whyMoved(c.Context, client, q)
			}
		}
	}
	if err != nil {
		return err
	}
	if format == "json" && r != nil {
		return cli.JSON(c.App.Writer, r)
	}
	if _, err := fmt.Fprint(c.App.Writer, moved); err != nil || r == nil && moved != "" {
		return err
	}
	if r == nil {
		return exit.New(exit.Usage, fmt.Errorf("there is no decision about pod %s/%s", exit.Clean(q.Namespace, 253),
			exit.Clean(q.Pod, 253)),
			"the scheduler keeps the last ones only, see its flag --decisions; --decision-log keeps more for --trace. "+
				"Profiles without a network or policy, such as default-scheduler, record only pods that find no node")
	}
	return Write(c.App.Writer, *r, c.String("checkpoint"))
}

// whyMoved returns what gnnsched defrag tells of a pod that it moved, as a line; "" if it tells nothing.
func whyMoved(ctx context.Context, c kubernetes.Interface, q decision.Query) string {
	list, err := c.CoreV1().Events(q.Namespace).List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=" + q.Pod})
	if err != nil {
		return "" // a user may not read events
	}
	var last v1.Event
	for _, e := range list.Items {
		if e.Reason == "Moved" && e.InvolvedObject.Name == q.Pod && !e.LastTimestamp.Before(&last.LastTimestamp) {
			last = e
		}
	}
	if last.Message == "" {
		return ""
	}
	return exit.Clean(last.Message, 400) + "\n"
}

// Write explains why a record's pod got its node, or none. It looks for the deciding weights in the file, or among the shipped ones if file
// is empty. It returns an error if the file has other weights.
func Write(w io.Writer, r decision.Record, file string) error {
	var net *infer.Network
	if r.Fingerprint != "" { // else upstream's scoring decided, or a policy without weights
		var err error
		if net, err = networkOf(file, r.Fingerprint); err != nil {
			return err
		}
	}
	return write(w, r, net)
}

// fromTrace returns the newest record of a file that the query matches; nil if none does.
func fromTrace(path string, q decision.Query) (newest *decision.Record, err error) {
	err = decision.ReadRecords(path, func(r decision.Record) {
		if r.Namespace == q.Namespace && r.Pod == q.Pod && (newest == nil || !r.Time.Before(newest.Time)) {
			newest = &r
		}
	})
	if err != nil {
		return nil, exit.New(exit.Usage, fmt.Errorf("--trace: %w", err), "name a file that a scheduler wrote with --decision-log")
	}
	return newest, nil
}

// fromServer asks the running scheduler.
func fromServer(c *ucli.Context, q decision.Query) (*decision.Record, error) {
	client, err := newClient(c)
	if err != nil {
		return nil, err
	}
	records, err := client.Last(c.Context, q)
	if err != nil || len(records) == 0 {
		return nil, err
	}
	return &records[0], nil
}

// networkOf returns the network with the fingerprint, from a file or from the shipped ones; nil if there is none.
func networkOf(path, fingerprint string) (*infer.Network, error) {
	if path != "" {
		c, err := checkpoint.Load(path)
		if err != nil {
			return nil, exit.New(exit.Checkpoint, fmt.Errorf("--checkpoint: %w", err), "")
		}
		if got := fmt.Sprintf("%016x", c.Fingerprint()); got != fingerprint {
			return nil, exit.New(exit.Checkpoint, fmt.Errorf("--checkpoint %s has the fingerprint %s, but %s decided",
				path, got, exit.Clean(fingerprint, 40)), "name the file with the weights that decided")
		}
		return infer.New(c)
	}
	for _, name := range checkpoint.ShippedNames() {
		if c, err := checkpoint.Shipped(name); err == nil && fmt.Sprintf("%016x", c.Fingerprint()) == fingerprint {
			return infer.New(c)
		}
	}
	return nil, nil
}

// defaultServer is a scheduler on this machine with the default port.
const defaultServer = "https://127.0.0.1:10259"

// serverFlags returns the flags that [newClient] reads, without the cluster's flags.
func serverFlags() []ucli.Flag {
	return append([]ucli.Flag{&ucli.StringFlag{Name: "server", Value: defaultServer, Usage: "`URL` of the scheduler's port"}}, access()...)
}

// ServersFlags returns the flags that [Clients] reads, without the cluster's flags.
func ServersFlags() []ucli.Flag {
	return append([]ucli.Flag{&ucli.StringSliceFlag{
		Name: "server", Value: ucli.NewStringSlice(defaultServer),
		Usage: "`URL` of a scheduler's port; may be repeated, to see several schedulers side by side",
	}}, access()...)
}

// access are the flags about certificates and tokens.
func access() []ucli.Flag {
	return []ucli.Flag{
		&ucli.StringFlag{Name: "ca-file", Usage: "PEM `FILE` with the CA of the scheduler's certificate; without it, " +
			"the certificate is not verified, and only a scheduler on this machine is asked"},
		&ucli.StringFlag{Name: "token-file", Usage: "`FILE` with a bearer token that may get " + decision.DebugPath +
			"; default: the kubeconfig's token"},
	}
}

// maxAnswer bounds the bytes of a scheduler's answer that are read.
const maxAnswer = 4 << 20

// Client asks one scheduler. Make one with [newClient].
type Client struct {
	server string
	token  func() (string, error)
	http   *http.Client
}

// newClient returns a client for the scheduler that the flags name. It checks that there is a token, but sends nothing yet. A
// token's file is read again for each request, because tokens of service accounts are replaced in time.
func newClient(c *ucli.Context) (*Client, error) { return clientOf(c, c.String("server")) }

// Clients returns a client for each scheduler that the flags name, as [newClient] does for one. All get the same token.
func Clients(c *ucli.Context) (all []*Client, err error) {
	for _, server := range c.StringSlice("server") {
		client, err := clientOf(c, server)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(all, func(other *Client) bool { return other.Host() == client.Host() }) {
			return nil, exit.New(exit.Usage, fmt.Errorf("--server names %s twice", client.Host()), "name each scheduler once")
		}
		all = append(all, client)
	}
	return all, nil
}

func clientOf(c *ucli.Context, server string) (*Client, error) {
	client, err := connection(c, server)
	if err != nil {
		return nil, err
	}
	token, err := tokenOf(c)
	if err != nil {
		return nil, err
	}
	if _, err := token(); err != nil {
		return nil, err
	}
	return &Client{server: strings.TrimSuffix(server, "/"), token: token, http: client}, nil
}

// Host returns HOST:PORT of the scheduler.
func (c *Client) Host() string { return strings.TrimPrefix(c.server, "https://") }

// Last returns the scheduler's last decisions that the query matches, the newest first. Without a limit, the scheduler chooses their
// number. Texts in them are safe to print. Errors have exit codes.
func (c *Client) Last(ctx context.Context, q decision.Query) ([]decision.Record, error) {
	values := url.Values{}
	if q.Pod != "" {
		values.Set("pod", q.Namespace+"/"+q.Pod)
	}
	if q.Limit > 0 {
		values.Set("limit", strconv.Itoa(q.Limit))
	}
	return ask(ctx, c, question{decision.DebugPath, values, exit.New(exit.Usage, errors.New("the scheduler records no decisions"),
		"it was started with --decisions 0, or is an older version")},
		func(body []byte) ([]decision.Record, error) { return parseDecisions(body, q.Limit) })
}

// Learning returns samples of the scheduler's learning; they are empty if no profile learns. It returns the same errors as Last.
func (c *Client) Learning(ctx context.Context) (learningcurve.Samples, error) {
	return ask(ctx, c, question{learningcurve.Path, nil, exit.New(exit.Usage, errors.New("the scheduler does not say how its learning goes"),
		"it is an older version, or places nothing (--shadow)")}, ofThisVersion("course of learning", learningcurve.Parse))
}

// Usage returns the measurements of the scheduler's sources of usage; nil if it has no source. It returns the same errors as Last.
func (c *Client) Usage(ctx context.Context) ([]usage.Report, error) {
	return ask(ctx, c, question{usage.Path, nil, exit.New(exit.Usage, errors.New("the scheduler does not say what it knows of usage"),
		"it is an older version")}, ofThisVersion("report of usage", usage.ParseReports))
}

// Shadow returns the findings so far of a scheduler that shadows another one. It returns the same errors as Last.
func (c *Client) Shadow(ctx context.Context) (shadow.Live, error) {
	return ask(ctx, c, question{shadow.Path, nil, exit.New(exit.Usage, errors.New("the scheduler is in the shadow of no other one"),
		"rungnn --shadow is; --server names a scheduler on another port")}, shadow.ParseLive)
}

// question names a path of a scheduler's server. absent is the error if the scheduler does not know the path.
type question struct {
	path   string
	values url.Values
	absent error
}

// ask parses the scheduler's answer to a question.
func ask[T any](ctx context.Context, c *Client, q question, parseDecisions func([]byte) (T, error)) (T, error) {
	body, err := c.get(ctx, q.path, q.values)
	if errors.Is(err, errNotFound) {
		err = q.absent
	}
	if err != nil {
		var none T
		return none, err
	}
	return parseDecisions(body)
}

// ofThisVersion gives the errors of a parser an exit code and a hint.
func ofThisVersion[T any](what string, parseDecisions func([]byte) (T, error)) func([]byte) (T, error) {
	return func(body []byte) (T, error) {
		out, err := parseDecisions(body)
		if err != nil {
			err = exit.New(exit.Unreachable, fmt.Errorf("the answer is no %s: %w", what, err), "are both programs of the same version?")
		}
		return out, err
	}
}

// errNotFound reports a path that the scheduler does not know.
var errNotFound = errors.New("not found")

// get returns the scheduler's answer at a path. All errors except errNotFound have exit codes.
func (c *Client) get(ctx context.Context, path string, values url.Values) ([]byte, error) {
	within, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(within, http.MethodGet, c.server+path+"?"+values.Encode(), nil)
	if err != nil {
		return nil, exit.New(exit.Usage, fmt.Errorf("--server: %w", err), "for example https://127.0.0.1:10259")
	}
	token, err := c.token()
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := c.http.Do(req)
	if err != nil {
		if errors.Is(ctx.Err(), context.Canceled) {
			return nil, ctx.Err()
		}
		return nil, unanswered(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, exit.New(exit.Unreachable, fmt.Errorf("ask the scheduler: %w", err), "")
	}
	switch resp.StatusCode {
	case http.StatusOK:
	case http.StatusNotFound:
		return nil, errNotFound
	case http.StatusUnauthorized, http.StatusForbidden:
		return nil, exit.New(exit.Kubeconfig, fmt.Errorf("the scheduler refuses the token: %s", resp.Status),
			"the user of the token needs the verb get on the path "+path)
	default:
		return nil, exit.New(exit.Unreachable, fmt.Errorf("the scheduler answers %s: %s", resp.Status, exit.Clean(string(body), 200)), "")
	}
	return body, nil
}

// unanswered gives the error of a request its exit code and next step.
func unanswered(err error) error {
	fault, _ := kubeconfig.TLSSettings{Address: "--server", Authority: "--ca-file"}.Explain(err)
	if u := (*url.Error)(nil); errors.As(err, &u) {
		err = u.Err // without the address, which --server says
	}
	err = fmt.Errorf("ask the scheduler: %w", err)
	if fault.Misfit {
		return exit.New(exit.Usage, err, fault.Hint)
	}
	return exit.New(exit.Unreachable, err, "is one running? --server names another one; explain --trace reads a file")
}

// parseDecisions reads an answer, and at most limit records of it, or all if limit is 0.
func parseDecisions(body []byte, limit int) ([]decision.Record, error) {
	var page struct {
		Records []json.RawMessage `json:"records"`
	}
	if err := json.Unmarshal(body, &page); err != nil {
		return nil, exit.New(exit.Unreachable, fmt.Errorf("the answer is no page of decisions: %w", err),
			"does --server name a scheduler of gnnsched?")
	}
	if limit > 0 && len(page.Records) > limit {
		page.Records = page.Records[:limit] // a scheduler would not send more
	}
	records := make([]decision.Record, len(page.Records))
	for i, text := range page.Records {
		var err error
		if records[i], err = decision.ParseRecord(text); err != nil {
			return nil, exit.New(exit.Unreachable, err, "are both programs of the same version?")
		}
	}
	return records, nil
}

// connection returns a client that verifies the scheduler's certificate, or talks to this machine only. It follows no
// redirect, which could carry the token elsewhere.
func connection(c *ucli.Context, server string) (*http.Client, error) {
	u, err := url.Parse(server)
	if err != nil || u.Scheme != "https" || u.Host == "" {
		return nil, exit.New(exit.Usage, fmt.Errorf("--server %q is not an address that begins with https://", server),
			"for example https://127.0.0.1:10259")
	}
	ca := c.String("ca-file")
	if ca == "" && !onThisMachine(u.String()) {
		return nil, exit.New(exit.Usage, errors.New("a scheduler on another machine must prove who it is before it gets a token"),
			"name the CA of its certificate with --ca-file")
	}
	err = files.Check(files.Text, ca)
	var transport http.RoundTripper
	if err == nil { // without a CA, the certificate is self-signed, and the connection does not leave loopback
		transport, err = rest.TransportFor(&rest.Config{TLSClientConfig: rest.TLSClientConfig{CAFile: ca, Insecure: ca == ""}})
	}
	if err != nil {
		return nil, exit.New(exit.Usage, fmt.Errorf("--ca-file: %w", err), "")
	}
	return &http.Client{
		Transport:     transport,
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

// tokenOf returns a function that returns the token of --token-file, or the kubeconfig's. Any user of this machine can listen where no
// scheduler does, so without a CA the kubeconfig's token is only for a cluster on this machine.
func tokenOf(c *ucli.Context) (func() (string, error), error) {
	path := c.String("token-file")
	if path == "" {
		rest, err := cli.Target(c).REST()
		if err != nil {
			return nil, err
		}
		if c.String("ca-file") == "" && !onThisMachine(rest.Host) {
			return nil, exit.New(exit.Usage, fmt.Errorf("the token for %s is not given to a scheduler whose certificate is not verified", rest.Host),
				"name its CA with --ca-file, or another token, which may only get "+decision.DebugPath+", with --token-file")
		}
		path = rest.BearerTokenFile // it comes before the token, which client-go has read from it
		if path == "" && rest.BearerToken != "" {
			return func() (string, error) { return rest.BearerToken, nil }, nil
		}
		if path == "" {
			return nil, exit.New(exit.Usage, errors.New("the kubeconfig has no token, and the scheduler accepts nothing else"),
				"make one with kubectl create token, and name its file with --token-file")
		}
	}
	return func() (string, error) {
		text, err := files.Read(path, files.Text)
		if err != nil {
			return "", exit.New(exit.Usage, fmt.Errorf("read the token: %w", err), "name a file with a token by --token-file")
		}
		return strings.TrimSpace(string(text)), nil
	}, nil
}
