// Package promapi asks a Prometheus server.
package promapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"k8s.io/client-go/rest"

	"gnnsched/internal/inputfile"
)

const maxAnswer = 64 << 20 // bytes of one answer; 10,000 pods take about 2 MB

// Server says where a Prometheus server is and how to reach it.
type Server struct {
	// Address is the server's URL, such as https://prometheus:9090. It has no user and no password.
	Address string
	// The files, in PEM, with the certificates that sign the server's certificate and with the client's own certificate
	// and key, and one with a bearer token. All but CAFile are read again when they change.
	CAFile, CertFile, KeyFile, TokenFile string
	// ServerName is the name that the server's certificate must have, if it is not that of Address.
	ServerName string
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
	return nil
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// Client asks one server. Its methods may be called from several goroutines.
type Client struct {
	HTTP *http.Client
	URL  string // without the path of the API
	// Warn, if not nil, is called with each warning in an answer. What a server warns of may be missing from the answer.
	Warn func(string)
}

// New returns a client of a valid server. It reads the certificates.
func New(s Server) (*Client, error) {
	if err := inputfile.Check(inputfile.Text, s.CAFile, s.CertFile, s.KeyFile, s.TokenFile); err != nil {
		return nil, fmt.Errorf("certificates or token for %s: %w", s.Address, err)
	}
	transport, err := rest.TransportFor(&rest.Config{
		Host: s.Address, BearerTokenFile: s.TokenFile,
		TLSClientConfig: rest.TLSClientConfig{CAFile: s.CAFile, CertFile: s.CertFile, KeyFile: s.KeyFile, ServerName: s.ServerName},
	})
	if err != nil {
		return nil, fmt.Errorf("certificates or token for %s: %w", s.Address, err)
	}
	// A redirect could lead the token elsewhere.
	refuse := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &Client{HTTP: &http.Client{Transport: transport, CheckRedirect: refuse}, URL: strings.TrimSuffix(s.Address, "/")}, nil
}

// Query returns the vector that a query gives for a time; the zero time is now.
func (c *Client) Query(ctx context.Context, query string, at time.Time) (model.Vector, error) {
	form := url.Values{"query": {query}}
	if !at.IsZero() {
		form.Set("time", stamp(at))
	}
	var out model.Vector
	if err := c.ask(ctx, "query", "vector", form, &out); err != nil {
		return nil, err
	}
	for _, s := range out {
		if s == nil {
			return nil, errors.New("not an answer of Prometheus: it has an empty sample")
		}
	}
	return out, nil
}

// Range returns what a query gives for the times from, from + step, and so on up to to.
func (c *Client) Range(ctx context.Context, query string, from, to time.Time, step time.Duration) (model.Matrix, error) {
	form := url.Values{"query": {query}, "start": {stamp(from)}, "end": {stamp(to)}, "step": {strconv.FormatFloat(step.Seconds(), 'f', -1, 64)}}
	var out model.Matrix
	if err := c.ask(ctx, "query_range", "matrix", form, &out); err != nil {
		return nil, err
	}
	for _, s := range out {
		if s == nil {
			return nil, errors.New("not an answer of Prometheus: it has an empty series")
		}
	}
	return out, nil
}

func stamp(t time.Time) string { return strconv.FormatFloat(float64(t.UnixMilli())/1000, 'f', 3, 64) }

// Refused is the error of a query that Prometheus got and will never answer, such as one over too many samples. To ask
// again does not help. A server that was too slow or not ready gives another error.
type Refused struct{ Why string }

func (r Refused) Error() string { return r.Why }

// ask sends one query and reads an answer of the given type.
func (c *Client) ask(ctx context.Context, path, kind string, form url.Values, into any) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.URL+"/api/v1/"+path, strings.NewReader(form.Encode()))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	answer, err := c.HTTP.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer+1))
	switch {
	case err != nil:
		return err
	case len(text) > maxAnswer:
		return Refused{fmt.Sprintf("the answer is longer than %d MB", maxAnswer>>20)}
	}
	warnings, err := parse(text, kind, answer.StatusCode, into)
	if err != nil && answer.StatusCode != http.StatusOK {
		return fmt.Errorf("status %s: %w", answer.Status, err)
	}
	if err == nil && c.Warn != nil {
		for _, w := range warnings {
			c.Warn(w)
		}
	}
	return err
}

// parse reads an answer, which must have the given type.
func parse(text []byte, kind string, status int, into any) (warnings []string, err error) {
	var a struct {
		Status    string   `json:"status"`
		ErrorType string   `json:"errorType"`
		Error     string   `json:"error"`
		Warnings  []string `json:"warnings"`
		Data      struct {
			Type   string          `json:"resultType"`
			Result json.RawMessage `json:"result"`
		} `json:"data"`
	}
	err = json.Unmarshal(text, &a)
	switch {
	case a.Error != "" && final(a.Status, a.ErrorType, status):
		return nil, Refused{fmt.Sprintf("Prometheus says %.200q", a.Error)}
	case a.Error != "":
		return nil, fmt.Errorf("Prometheus says %.200q", a.Error)
	case err != nil:
		return nil, fmt.Errorf("not an answer of Prometheus: %w; it begins with %.120q", err, text)
	case a.Status != "success" || a.Data.Type != kind:
		return nil, fmt.Errorf("not a %s: a query must give one value for each node or pod", kind)
	}
	if err := json.Unmarshal(a.Data.Result, into); err != nil {
		return nil, fmt.Errorf("not an answer of Prometheus: %w", err)
	}
	return a.Warnings, nil
}

// final reports whether an error says that the query itself cannot be answered. The types are those of Prometheus' API; without
// one, the HTTP status tells.
func final(status, errorType string, code int) bool {
	if status == "success" { // an answer that lacks something
		return false
	}
	switch errorType {
	case "bad_data", "execution", "not_found", "not_acceptable":
		return true
	case "":
		return code == http.StatusBadRequest || code == http.StatusUnprocessableEntity
	}
	return false
}

// NodeNames returns the names and addresses of the node that a series may be of, the best first.
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
