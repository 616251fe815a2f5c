package state

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"gnnsched/internal/exit"
	"gnnsched/internal/kubeconfig"
	"gnnsched/scheduler/decision"
)

// pageSize is the number of objects in one answer of the server: a few megabytes before they
// are stripped.
const pageSize = 1000

// runningPods selects the pods that hold resources or wait for them.
const runningPods = "status.phase!=Succeeded,status.phase!=Failed"

// errNoScheduler reports that the program asks no scheduler.
var errNoScheduler = errors.New("there is no scheduler to ask")

// Config configures a Source. Client is needed; the rest has defaults.
type Config struct {
	Client   kubernetes.Interface
	Selector string // label selector of the nodes; empty means all
	// Namespace is the one whose pods are listed; "" for all. Sums count all pods.
	Namespace string
	Servers   []Server // schedulers to ask for their decisions
	// Explain says in sentences and tables why a pod got its node. It may be nil.
	Explain func(decision.Record) (string, error)
	Log     logr.Logger      // client-go's messages; the zero value drops them
	Now     func() time.Time // nil means time.Now
	retry   time.Duration    // first pause before reconnecting, doubled up to ten times as much; 0 means 500 ms
}

// Validate checks the configuration. A wrong selector is a usage error. The client may still
// be missing.
func (c Config) Validate() error {
	if c.retry < 0 {
		return fmt.Errorf("the pause before reconnecting is %v; it cannot be negative", c.retry)
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
		return c, errors.New("no client for the API server")
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	c.retry = cmp.Or(c.retry, 500*time.Millisecond)
	return c, nil
}

// Source is a cluster that is being watched.
type Source struct {
	cluster *Cluster
	link    *link
	now     func() time.Time
	ctx     context.Context // ends with Stop
	stop    context.CancelFunc
	done    sync.WaitGroup

	servers []*server
	events  answer[[]Event]
	podLog  podLog
}

// Start lists the cluster, follows its changes, and returns once the first list is complete.
// If the first list fails, Start returns an error with an exit code. Later failures are
// reported as [Frame.Lost] while the source tries again. The source ends with ctx or
// [Source.Stop].
func Start(ctx context.Context, cfg Config) (*Source, error) {
	cfg, err := cfg.ready()
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(klog.NewContext(ctx, cfg.Log))
	s := &Source{
		cluster: New(), link: newLink(cfg.Now), now: cfg.Now, ctx: ctx, stop: stop,
		servers: serversOf(cfg),
		events:  answer[[]Event]{ask: allEvents(cfg.Client), every: eventsInterval, now: cfg.Now},
	}
	s.cluster.namespace = cfg.Namespace
	s.podLog = podLog{client: cfg.Client, servers: s.servers, explain: cfg.Explain, now: cfg.Now}
	nodes, pods := nodeStore(s.cluster), podStore(s.cluster, cfg.Now)
	slices, claims := sliceStore(s.cluster), claimStore(s.cluster)
	s.follow(ctx, cfg, stream{"nodes", &v1.Node{}, nodes, s.link.observe("nodes", requests(cfg.Client.CoreV1().Nodes(), cfg.Selector))})
	s.follow(ctx, cfg, stream{"pods", &v1.Pod{}, pods, s.link.observe("pods", listPods(cfg))})
	made, taken := requests(cfg.Client.ResourceV1().ResourceSlices(), ""), requests(cfg.Client.ResourceV1().ResourceClaims(""), "")
	s.follow(ctx, cfg, stream{"resourceslices", &resourceapi.ResourceSlice{}, slices, orWithout(slices.feed, made)})
	s.follow(ctx, cfg, stream{"resourceclaims", &resourceapi.ResourceClaim{}, claims, orWithout(claims.feed, taken)})
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

// List reads the cluster once. It returns errors as [Start] does, and logs nothing: a cluster may lack the kinds of devices.
func List(ctx context.Context, cfg Config) (Frame, error) {
	cfg.Log = logr.Discard()
	s, err := Start(ctx, cfg)
	if err != nil {
		return Frame{}, err
	}
	defer s.Stop()
	if used, err := listUsed(ctx, cfg); err == nil {
		s.cluster.SetUsed(used)
	}
	return s.Frame(All), nil
}

// Frame returns the cluster now, with the maxPending oldest pending pods.
func (s *Source) Frame(maxPending int) Frame {
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

// orWithout ends the wait for a feed's first list when the list fails: clusters may lack the API, and users the right.
// The frames are then without it until it works.
func orWithout(f feed, lw *cache.ListWatch) *cache.ListWatch {
	return &cache.ListWatch{
		WatchFuncWithContext: lw.WatchFuncWithContext,
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			list, err := lw.ListWithContext(ctx, o)
			if err != nil && !negotiation(err) {
				f.markSynced()
			}
			return list, err
		},
	}
}

// link knows whether the API server answers. It observes the requests of the reflectors.
type link struct {
	fatal chan error // the first failure while starting

	mu       sync.Mutex
	now      func() time.Time
	starting bool             // the first lists are not complete yet
	failing  map[string]error // resources whose last request failed
	since    time.Time        // when the first of them failed
}

func newLink(now func() time.Time) *link {
	return &link{fatal: make(chan error, 1), now: now, starting: true, failing: map[string]error{}}
}

// observe wraps lw so that link notes the results of its requests, under the resource's name.
func (l *link) observe(resource string, lw *cache.ListWatch) *cache.ListWatch {
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			list, err := lw.ListWithContext(ctx, o)
			l.note(ctx, "list", resource, err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (apiwatch.Interface, error) {
			w, err := lw.WatchWithContext(ctx, o)
			l.note(ctx, "watch", resource, err)
			return w, err
		},
	}
}

// note records whether a request succeeded.
func (l *link) note(ctx context.Context, verb, resource string, err error) {
	if err != nil && (ctx.Err() != nil || negotiation(err)) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil {
		delete(l.failing, resource)
		return
	}
	if l.starting {
		select {
		case l.fatal <- explain(verb, resource, err):
		default: // one is enough
		}
	}
	if len(l.failing) == 0 {
		l.since = l.now()
	}
	l.failing[resource] = err
}

// started marks the first lists as complete: from now on, failures are outages that end by themselves.
func (l *link) started() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.starting = false
}

// lost returns the current outage, or nil.
func (l *link) lost() *Lost {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.failing) == 0 {
		return nil
	}
	first := slices.Min(slices.Collect(maps.Keys(l.failing)))
	return &Lost{Since: l.since, Reason: reason(l.failing[first])}
}

// negotiation tells whether an error is part of the protocol. The reflector then asks again in
// another way: for an older resource version, for a list instead of a stream, or later.
func negotiation(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsResourceExpired(err) || apierrors.IsGone(err) ||
		apierrors.IsTooManyRequests(err) || apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge)
}

// explain turns a failed first request into an error with an exit code and a next step.
func explain(verb, resource string, err error) error {
	err = fmt.Errorf("%s %s: %w", verb, resource, err)
	switch {
	case apierrors.IsUnauthorized(err):
		return exit.New(exit.Kubeconfig, err,
			"the credentials in the kubeconfig are not accepted; fetch new ones, or name another with --kubeconfig or --context")
	case apierrors.IsForbidden(err):
		return exit.New(exit.Kubeconfig, err,
			"the user of the kubeconfig may not "+verb+" "+resource+" in all namespaces; `gnnsched doctor ktop` lists what is missing")
	}
	return kubeconfig.Explain(err)
}

// reason is the innermost message of err, without the request's URL in front of it.
func reason(err error) string {
	for {
		next := errors.Unwrap(err)
		if next == nil {
			return err.Error()
		}
		err = next
	}
}
