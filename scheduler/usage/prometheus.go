package usage

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/common/model"
	"golang.org/x/sync/errgroup"

	"gnnsched/internal/cluster"
	"gnnsched/internal/promapi"
)

const atOnce = 4 // concurrent queries

// prometheus asks a Prometheus server.
type prometheus struct {
	client  *promapi.Client
	queries map[string]string
}

// newPrometheus returns the source of a valid configuration. It reads the certificates.
func newPrometheus(c Config) (*prometheus, error) {
	client, err := promapi.New(c.server())
	if err != nil {
		return nil, fmt.Errorf("usage: %w", err)
	}
	p := &prometheus{client: client, queries: map[string]string{}}
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
			samples, err := p.client.Query(ctx, q, time.Time{})
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

// add appends the answer to a named query.
func (m *measurement) add(name string, samples model.Vector) {
	kind, dimension, _ := strings.Cut(name, "_")
	for _, s := range samples {
		value := float64(s.Value)
		switch {
		case s.Histogram != nil:
		case name == ageQuery:
			m.Ages = append(m.Ages, nodeValue{promapi.NodeNames(s.Metric), float64(s.Timestamp)/1000 - value})
		case name == wattsQuery:
			m.Watts = append(m.Watts, nodeValue{promapi.NodeNames(s.Metric), value})
		case name == throttledQuery:
			m.Throttled = append(m.Throttled, nodeValue{promapi.NodeNames(s.Metric), value * factors[cluster.UsedCPU]})
		case kind == "node":
			d := dimensionNamed(dimension)
			m.Nodes = append(m.Nodes, nodeSample{promapi.NodeNames(s.Metric), d, value * factors[d]})
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
