package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/klog/v2"
	schedulerserver "k8s.io/kubernetes/cmd/kube-scheduler/app/config"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"

	"gnnsched/internal/kuberelease"
	"gnnsched/internal/logging"
	"gnnsched/scheduler/plugin"
)

// process does what upstream's app.Setup and app.Run do, from the same parts, with these differences: it
// repeats bindings without an answer; when it is told to stop while it holds the lease, its plugins are closed
// before it ends; when it loses the lease, it stands by again (upstream's process ends in both cases, the first
// time without closing).
type process struct {
	config  *schedulerserver.Config
	lease   *announcedLock // nil without leader election
	records plugin.Recording
	current atomic.Pointer[instance] // the one that schedules or stands by
}

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
	if p.config, err = o.Config(context.WithoutCancel(ctx)); err != nil {
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
	p.config.KubeConfig = rest.CopyConfig(p.config.KubeConfig)
	p.config.KubeConfig.Wrap(func(next http.RoundTripper) http.RoundTripper { return rebinding{next} })
	if p.config.Client, err = kubernetes.NewForConfig(rest.AddUserAgent(p.config.KubeConfig, "scheduler")); err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	p.config.EventBroadcaster = broadcaster{p.config.EventBroadcaster}
	go tellSkew(ctx, p.config.Client.Discovery().RESTClient())
	if e := p.config.LeaderElection; e != nil {
		p.lease = announce(ctx, e)
	}
	return p.renew(ctx)
}

// close frees what does not end with the context of newProcess.
func (p *process) close() {
	p.lease.close()
	p.config.EventBroadcaster.Shutdown()
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
			i.schedule(ctx)
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
	if p.records.Curves == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var sampling sync.WaitGroup
	sampling.Go(func() { p.records.Curves.Run(ctx) })
	return func() { cancel(); sampling.Wait() }
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
		elector.Run(ctx) // gives the lease back while the plugins are closed
	}()
	select {
	case leading := <-turn:
		i.startInformers()
		i.catchUp(leading, p.config.Client)
		i.schedule(leading)
	case <-stopped:
		i.close(ctx)
	}
	<-stopped
	return nil
}
