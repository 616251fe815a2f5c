package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
	schedulerserver "k8s.io/kubernetes/cmd/kube-scheduler/app/config"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"

	"gnnsched/internal/kuberelease"
	"gnnsched/internal/logging"
	"gnnsched/internal/metric"
	"gnnsched/scheduler/plugin"
	"gnnsched/scheduler/server/eventsink"
	"gnnsched/scheduler/server/outage"
)

// process does what upstream's app.Setup and app.Run do, from the same parts, with these differences: it
// survives an API server that is away, and says so; when it is told to stop while it holds the lease,
// its plugins are closed before it ends; when it loses the lease, it stands by again (upstream's process ends
// in both cases, the first time without closing); and it writes events with bounded memory.
type process struct {
	config  *schedulerserver.Config
	gate    *outage.Gate
	lease   *announcedLock // nil without leader election
	marks   *marks
	records plugin.Recording
	current atomic.Pointer[instance] // the one that schedules or stands by
}

var set metric.Set

var unreachable = set.Counter("api_server_unreachable_seconds_total",
	"Time in which the API server did not answer, or answered everything with a failure.")

var droppedEvents = set.Counter("events_dropped_total",
	"Events that were not written, because the API server could not keep up or did not answer.")

// newProcess makes a process with its first scheduler. Its goroutines end with ctx.
func newProcess(ctx context.Context, o *options.Options, records plugin.Recording) (*process, error) {
	var err error
	if o.ComponentConfig, err = latest.Default(); err != nil {
		return nil, err
	}
	if errs := o.Validate(); len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	p := &process{records: records}
	// The broadcaster of events lives until close: an election has an event when it ends.
	if p.config, err = o.Config(logging.Quiet(context.WithoutCancel(ctx), p.away)); err != nil {
		return nil, err
	}
	if err := p.setUp(ctx); err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

// setUp makes what the process needs beside its configuration.
func (p *process) setUp(ctx context.Context) (err error) {
	enable(p.config.ComponentConfig.Profiles, p.records.Book != nil)
	if a := &p.config.Authentication; a.Authenticator != nil {
		a.Authenticator = tokenUnlessHealth(a.Authenticator)
	}
	if p.marks, err = newMarks(ctx, p.config.KubeConfig, &p.config.ComponentConfig); err != nil {
		return err
	}
	if err := p.survive(ctx); err != nil {
		return err
	}
	go tellSkew(ctx, p.config.Client.Discovery().RESTClient())
	if e := p.config.LeaderElection; e != nil {
		if l, is := e.Lock.(*resourcelock.LeaseLock); is {
			l.LockConfig.Identity = processName() // upstream's name has no process id
		}
		p.lease = announce(ctx, e, p.gate)
	}
	return p.renew(ctx)
}

// away reports whether the API server is away, so that errors of requests say nothing new.
func (p *process) away(error) bool {
	if p.gate == nil {
		return false
	}
	_, is := p.gate.Away()
	return is
}

// close frees what does not end with the context of newProcess.
func (p *process) close() { p.config.EventBroadcaster.Shutdown() }

// survive puts a gate before the client with which the scheduler works. The client of the leader
// election stays as it is: its requests must fail in time.
func (p *process) survive(ctx context.Context) error {
	set.Register()
	var err error
	log := klog.FromContext(ctx).WithName(logging.ProjectLogger)
	if p.gate, err = outage.New(p.config.KubeConfig, log, unreachable.Add); err != nil {
		return err
	}
	gated := rest.CopyConfig(p.config.KubeConfig)
	gated.Wrap(p.gate.Wrap)
	p.config.KubeConfig = gated
	if p.config.Client, err = kubernetes.NewForConfig(rest.AddUserAgent(gated, "scheduler")); err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	recording, err := kubernetes.NewForConfig(rest.AddUserAgent(gated, "events"))
	if err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	p.config.EventBroadcaster = eventsink.NewBroadcaster(p.config.EventBroadcaster, recording.EventsV1(), droppedEvents.Inc)
	return nil
}

// tellSkew logs that this scheduler and the API server do not fit, as soon as the server answers. A scheduler that is newer may wait
// for objects that the server does not have.
func tellSkew(ctx context.Context, c rest.Interface) {
	log := klog.FromContext(ctx).WithName(logging.ProjectLogger)
	var server version.Info
	raw, err := c.Get().AbsPath("/version").Do(ctx).Raw()
	if err == nil {
		err = json.Unmarshal(raw, &server)
	}
	if ctx.Err() != nil {
		return
	}
	if fit, problem := kuberelease.Check(server.GitVersion); fit != kuberelease.Fits {
		log.Error(err, "Scheduler and API server may not fit: "+problem, "apiServer", server.GitVersion)
	}
}

// renew makes a new scheduler.
func (p *process) renew(ctx context.Context) error {
	i, err := newInstance(ctx, p.config, p.records)
	if err == nil {
		p.current.Store(i)
	}
	return err
}

// run schedules until ctx ends.
func (p *process) run(ctx context.Context) error {
	go p.gate.Run(ctx)
	p.config.EventBroadcaster.StartRecordingToSink(ctx.Done())
	stop, err := p.serveEndpoint(ctx)
	if err != nil {
		return err
	}
	defer stop()
	defer p.sampleLearning(ctx)()
	for {
		i := p.current.Load()
		if !p.config.ComponentConfig.DelayCacheUntilActive || p.config.LeaderElection == nil {
			i.startInformers()
		}
		if p.config.LeaderElection == nil {
			p.schedule(ctx, i)
			return ctx.Err()
		}
		if err := p.takeTurn(ctx, i); err != nil || ctx.Err() != nil {
			return err
		}
		p.lease.lost()
		if err := p.renew(ctx); err != nil {
			return err
		}
	}
}

// sampleLearning takes samples of how learning goes until ctx ends or stop is called, which waits for the end.
func (p *process) sampleLearning(ctx context.Context) (stop func()) {
	if p.records.Course == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var sampling sync.WaitGroup
	sampling.Go(func() { p.records.Course.Run(ctx) })
	return func() { cancel(); sampling.Wait() }
}

// schedule schedules until ctx ends. Meanwhile the process keeps its marks.
func (p *process) schedule(ctx context.Context, i *instance) {
	var marked sync.WaitGroup
	marked.Go(func() { p.marks.keep(ctx) })
	i.schedule(ctx)
	marked.Wait()
}

// takeTurn waits for the lease and schedules until the lease is lost or ctx ends.
func (p *process) takeTurn(ctx context.Context, i *instance) error {
	turn := make(chan context.Context, 1)
	config := *p.config.LeaderElection
	config.Callbacks = leaderelection.LeaderCallbacks{
		OnStartedLeading: func(ctx context.Context) { turn <- ctx },
		OnStoppedLeading: func() {},
	}
	elector, err := leaderelection.NewLeaderElector(config)
	if err != nil {
		return fmt.Errorf("make the leader elector: %w", err)
	}
	config.WatchDog.SetLeaderElection(elector)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		elector.Run(logging.Quiet(ctx, p.away)) // gives the lease back while the plugins are closed
	}()
	select {
	case leading := <-turn:
		i.startInformers()
		i.catchUp(leading, p.config.Client)
		p.schedule(leading, i)
	case <-stopped:
		i.close(ctx)
	}
	<-stopped
	return nil
}
