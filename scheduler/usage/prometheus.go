package usage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/prometheus/common/model"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"

	"gnnsched/internal/cluster"
)

const (
	maxAnswer = 64 << 20 // bytes of one answer; 10,000 pods take about 2 MB
	atOnce    = 4        // queries that are asked at the same time
)

// prometheus asks a Prometheus server.
type prometheus struct {
	client  *http.Client
	url     string
	queries map[string]string
}

// newPrometheus returns the source of a valid configuration. It reads the certificates.
func newPrometheus(c Config) (*prometheus, error) {
	transport, err := rest.TransportFor(&rest.Config{
		Host: c.Address, BearerTokenFile: c.TokenFile,
		TLSClientConfig: rest.TLSClientConfig{CAFile: c.CAFile, CertFile: c.CertFile, KeyFile: c.KeyFile, ServerName: c.ServerName},
	})
	if err != nil {
		return nil, fmt.Errorf("usage: certificates or token for %s: %w", c.Address, err)
	}
	p := &prometheus{url: strings.TrimSuffix(c.Address, "/") + "/api/v1/query", queries: map[string]string{}}
	// A redirect could lead the token elsewhere.
	p.client = &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	for name, q := range defaultQueries {
		if own, replaced := c.Queries[name]; replaced {
			q = own
		}
		if q != "" {
			p.queries[name] = q
		}
	}
	return p, nil
}

// Measure implements source.
func (p *prometheus) Measure(ctx context.Context) (m measurement, err error) {
	var mu sync.Mutex
	var errs []error
	var group errgroup.Group
	group.SetLimit(atOnce)
	for name, q := range p.queries {
		group.Go(func() error {
			samples, err := p.ask(ctx, q)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				errs = append(errs, fmt.Errorf("query %s: %w", name, err))
				return nil
			}
			m.add(name, samples)
			return nil
		})
	}
	_ = group.Wait() // the errors are in errs
	if len(errs) > 0 {
		err = fmt.Errorf("%d of %d queries failed, one with: %w", len(errs), len(p.queries), errs[0])
	}
	return m, err
}

// ask sends one query for the present.
func (p *prometheus) ask(ctx context.Context, query string) (model.Vector, error) {
	body := strings.NewReader(url.Values{"query": {query}}.Encode())
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url, body)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	answer, err := p.client.Do(r)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, err
	case len(text) > maxAnswer:
		return nil, fmt.Errorf("the answer is longer than %d MB", maxAnswer>>20)
	}
	v, err := parseAnswer(text)
	if err != nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %s: %w", answer.Status, err)
	}
	return v, err
}

// parseAnswer reads the answer to a query, which must be a vector.
func parseAnswer(text []byte) (model.Vector, error) {
	var a struct {
		Status string `json:"status"`
		Error  string `json:"error"`
		Data   struct {
			Type   string       `json:"resultType"`
			Result model.Vector `json:"result"`
		} `json:"data"`
	}
	err := json.Unmarshal(text, &a)
	switch {
	case a.Error != "":
		return nil, fmt.Errorf("Prometheus says %.200q", a.Error)
	case err != nil:
		return nil, fmt.Errorf("not an answer of Prometheus: %w", err)
	case a.Status != "success" || a.Data.Type != "vector":
		return nil, errors.New("not a vector: a query must give one value for each node or pod")
	}
	for _, s := range a.Data.Result {
		if s == nil {
			return nil, errors.New("not an answer of Prometheus: it has an empty sample")
		}
	}
	return a.Data.Result, nil
}

// add appends the answer to a named query.
func (m *measurement) add(name string, samples model.Vector) {
	kind, dimension, _ := strings.Cut(name, "_")
	for _, s := range samples {
		value := float64(s.Value)
		switch {
		case s.Histogram != nil:
		case name == ageQuery:
			m.Ages = append(m.Ages, nodeAge{nodeNames(s.Metric), float64(s.Timestamp)/1000 - value})
		case kind == "node":
			d := dimensionNamed(dimension)
			m.Nodes = append(m.Nodes, nodeSample{nodeNames(s.Metric), d, value * factors[d]})
		default:
			d := dimensionNamed(dimension)
			m.Pods = append(m.Pods, podSample{string(s.Metric["namespace"]), string(s.Metric["pod"]), d, value * factors[d]})
		}
	}
}

// dimensionNamed returns the dimension of a query, whose names are all known.
func dimensionNamed(name string) cluster.Dimension {
	for d := range cluster.Dimension(cluster.Dimensions) {
		if d.String() == name {
			return d
		}
	}
	panic("usage: no dimension is called " + name)
}

// nodeNames returns the names of the node that a sample may be of, the best first.
func nodeNames(m model.Metric) (names []string) {
	for _, label := range []model.LabelName{"node", "kubernetes_node", "nodename", "instance"} {
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
