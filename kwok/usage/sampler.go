package usage

import (
	"cmp"
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/utils/clock"
)

// Config is the setting of a sampler. Interval is required.
type Config struct {
	Interval time.Duration    // time between two samples
	Clock    clock.WithTicker // nil: the real one
	Log      zerolog.Logger   // warnings about pods whose annotation is wrong; the zero value drops them
}

// Sampler measures the usage of pods and nodes. Before [Sampler.Run] has taken the first sample, and after it has ended, the pages that
// read it answer that there is no sample.
type Sampler struct {
	config Config
	last   atomic.Pointer[snapshot]
}

// New returns a sampler.
func New(c Config) *Sampler {
	c.Clock = cmp.Or[clock.WithTicker](c.Clock, clock.RealClock{})
	return &Sampler{config: c}
}

// Run watches the cluster's nodes and running pods, and samples them until ctx is cancelled. All its
// goroutines have ended when it returns.
func (s *Sampler) Run(ctx context.Context, client kubernetes.Interface) error {
	ctx, cancel := context.WithCancel(ctx)
	defer s.last.Store(nil)
	caches := watch(client)
	defer caches.shutdown()
	defer cancel()
	if err := caches.start(ctx); err != nil {
		return err
	}
	tick := s.config.Clock.NewTicker(s.config.Interval)
	defer tick.Stop()
	models := &models{log: s.config.Log}
	for {
		if err := s.sample(models, caches.nodes, caches.pods); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C():
		}
	}
}

// sample takes one sample and publishes it.
func (s *Sampler) sample(m *models, nodes corelisters.NodeLister, pods corelisters.PodLister) error {
	allNodes, err := nodes.List(labels.Everything())
	if err != nil {
		return fmt.Errorf("list the nodes: %w", err)
	}
	allPods, err := pods.List(labels.Everything())
	if err != nil {
		return fmt.Errorf("list the pods: %w", err)
	}
	m.begin()
	b := builder{old: s.last.Load(), models: m, interval: s.config.Interval}
	s.last.Store(b.build(allNodes, allPods, s.config.Clock.Now()))
	m.end()
	return nil
}

// reading is a snapshot with the growth of its counters since then.
type reading struct {
	*snapshot
	since float64 // seconds since the sample, at most one interval
}

// read returns the last snapshot, or false if there is none. Counters stop after one interval until the next
// sample, so that a late one never finds them ahead of itself.
func (s *Sampler) read() (reading, bool) {
	now := s.config.Clock.Now() // before the snapshot is read, which then is the newer of the two
	last := s.last.Load()
	if last == nil {
		return reading{}, false
	}
	since := min(max(now.Sub(last.at), 0), s.config.Interval)
	return reading{snapshot: last, since: since.Seconds()}, true
}
