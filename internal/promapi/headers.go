package promapi

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/textproto"
	"net/url"
	"regexp"
	"strings"

	utilnet "k8s.io/apimachinery/pkg/util/net"

	"gnnsched/internal/files"
)

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
	return series.ReplaceAllStringFunc(query, func(s string) string {
		if name, open := strings.CutSuffix(s, "{"); open {
			return name + "{" + c.matcher + ","
		}
		return s + "{" + c.matcher + "}"
	})
}
