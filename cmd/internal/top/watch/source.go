package watch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"gnnsched/cmd/internal/top/state"
	"gnnsched/internal/exit"
	"gnnsched/scheduler/decision/record"
)

// runningPods selects the pods that hold resources or wait for them.
const runningPods = "status.phase!=Succeeded,status.phase!=Failed"

// errNoScheduler reports that the program asks no scheduler.
var errNoScheduler = errors.New("there is no scheduler to ask")

// Config configures a Source. Client is needed; the rest has defaults.
type Config struct {
	Client   kubernetes.Interface
	Selector string   // label selector of the nodes; empty means all
	Servers  []Server // schedulers to ask for their decisions
	// Explain says in sentences and tables why a pod got its node. It may be nil.
	Explain func(record.Record) (string, error)
	Log     logr.Logger      // client-go's messages; the zero value drops them
	Now     func() time.Time // nil means time.Now
	retry   time.Duration    // first pause before reconnecting, doubled up to ten times as much; 0 means 500 ms
}

// Validate checks the configuration. A wrong selector is a usage error. The client may still
// be missing.
func (c Config) Validate() error {
	if c.retry < 0 {
		return fmt.Errorf("watch: the pause before reconnecting is %v; it cannot be negative", c.retry)
	}
	if _, err := labels.Parse(c.Selector); err != nil {
		return exit.New(exit.Usage, fmt.Errorf("label selector %q: %w", c.Selector, err),
			"write it as kubectl does: --selector zone=a,type!=kwok")
	}
	return nil
}

// ready returns the configuration with its defaults filled in.
func (c Config) ready() (Config, error) {
	if err := c.Validate(); err != nil {
		return c, err
	}
	if c.Client == nil {
		return c, errors.New("watch: no client")
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	c.retry = cmp.Or(c.retry, 500*time.Millisecond)
	return c, nil
}

// Source is a cluster that is being watched.
type Source struct {
	cluster *state.Cluster
	link    *link
	now     func() time.Time
	ctx     context.Context // ends with Stop
	stop    context.CancelFunc
	done    sync.WaitGroup

	servers []*server
	events  answer[[]state.Event]
	podLog  podLog
}

// Start lists the cluster, follows its changes, and returns once the first list is complete.
// If the first list fails, Start returns an error with an exit code. Later failures are
// reported as [state.Frame.Lost] while the source tries again. The source ends with ctx or
// [Source.Stop].
func Start(ctx context.Context, cfg Config) (*Source, error) {
	cfg, err := cfg.ready()
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(klog.NewContext(ctx, cfg.Log))
	s := &Source{
		cluster: state.New(), link: newLink(cfg.Now), now: cfg.Now, ctx: ctx, stop: stop,
		servers: serversOf(cfg),
		events:  answer[[]state.Event]{ask: allEvents(cfg.Client), every: eventsInterval, now: cfg.Now},
	}
	s.podLog = podLog{client: cfg.Client, servers: s.servers, explain: cfg.Explain, now: cfg.Now}
	nodes, pods := nodeStore(s.cluster), podStore(s.cluster, cfg.Now)
	slices, claims := sliceStore(s.cluster), claimStore(s.cluster)
	s.follow(ctx, cfg, stream{"nodes", &v1.Node{}, nodes, s.link.observe("nodes", listNodes(cfg))})
	s.follow(ctx, cfg, stream{"pods", &v1.Pod{}, pods, s.link.observe("pods", listPods(cfg))})
	s.follow(ctx, cfg, stream{"resourceslices", &resourceapi.ResourceSlice{}, slices, orWithout(slices.feed, listSlices(cfg))})
	s.follow(ctx, cfg, stream{"resourceclaims", &resourceapi.ResourceClaim{}, claims, orWithout(claims.feed, listClaims(cfg))})
	for _, f := range []feed{nodes.feed, pods.feed, slices.feed, claims.feed} {
		select {
		case <-f.synced:
		case err := <-s.link.fatal:
			s.Stop()
			return nil, err
		case <-ctx.Done():
			s.Stop()
			return nil, ctx.Err()
		}
	}
	s.link.started()
	s.done.Go(func() { s.followUsage(ctx, cfg) })
	return s, nil
}

// Frame returns the cluster now, with the maxPending oldest pending pods.
func (s *Source) Frame(maxPending int) state.Frame {
	f := s.cluster.Frame(s.now(), maxPending)
	f.Lost = s.link.lost()
	return f
}

// Stop ends the watches and waits until they have.
func (s *Source) Stop() {
	s.stop()
	s.done.Wait()
}

// stream is one resource to follow.
type stream struct {
	resource string // in lower case
	example  runtime.Object
	store    cache.ReflectorStore
	requests *cache.ListWatch
}

// follow keeps the stream's store up to date until ctx ends.
func (s *Source) follow(ctx context.Context, cfg Config, f stream) {
	r := cache.NewReflectorWithOptions(cache.ToListWatcherWithWatchListSemantics(f.requests, cfg.Client), f.example, f.store,
		cache.ReflectorOptions{
			Name: "ktop-" + f.resource, Logger: &cfg.Log,
			Backoff: &wait.Backoff{Duration: cfg.retry, Cap: 10 * cfg.retry, Steps: 20, Factor: 2, Jitter: 0.2},
		})
	r.WatchListPageSize = pageSize
	s.done.Go(func() { r.RunWithContext(ctx) })
}

// requests returns the requests of a typed client, with a label selector.
func requests[List runtime.Object](api interface {
	List(context.Context, metav1.ListOptions) (List, error)
	Watch(context.Context, metav1.ListOptions) (apiwatch.Interface, error)
}, selector string) *cache.ListWatch {
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.LabelSelector = selector
			return api.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (apiwatch.Interface, error) {
			o.LabelSelector = selector
			return api.Watch(ctx, o)
		},
	}
}

func listNodes(cfg Config) *cache.ListWatch {
	return requests(cfg.Client.CoreV1().Nodes(), cfg.Selector)
}

func listPods(cfg Config) *cache.ListWatch {
	api := cfg.Client.CoreV1().Pods(metav1.NamespaceAll)
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			// Always ask for the newest state, also where the reflector accepts an older one. Only
			// then does the server honour the page size, so that no more than one page of whole
			// pods is in memory at a time.
			o.FieldSelector = runningPods
			o.ResourceVersion, o.ResourceVersionMatch = "", ""
			list, err := api.List(ctx, o)
			if err != nil {
				return nil, err
			}
			return stripList(list), nil
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (apiwatch.Interface, error) {
			o.FieldSelector = runningPods
			return api.Watch(ctx, o)
		},
	}
}
