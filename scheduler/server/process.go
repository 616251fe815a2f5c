package server

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	goruntime "runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	genericapifilters "k8s.io/apiserver/pkg/endpoints/filters"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	genericfilters "k8s.io/apiserver/pkg/server/filters"
	"k8s.io/apiserver/pkg/server/flagz"
	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/apiserver/pkg/server/mux"
	"k8s.io/apiserver/pkg/server/routes"
	"k8s.io/apiserver/pkg/server/statusz"
	"k8s.io/apiserver/pkg/util/compatibility"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/component-base/configz"
	"k8s.io/component-base/logs"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/component-base/metrics/prometheus/slis"
	zpagesfeatures "k8s.io/component-base/zpages/features"
	"k8s.io/klog/v2"
	schedulerconfig "k8s.io/kube-scheduler/config/v1"
	schedulerserver "k8s.io/kubernetes/cmd/kube-scheduler/app/config"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	conversion "k8s.io/kubernetes/pkg/scheduler/apis/config/v1"
	"k8s.io/kubernetes/pkg/scheduler/metrics/resources"
	"k8s.io/utils/clock"

	"gnnsched/internal/exit"
	"gnnsched/internal/kuberelease"
	"gnnsched/internal/logging"
	"gnnsched/internal/metric"
	"gnnsched/scheduler/decision"
	"gnnsched/scheduler/plugin"
	"gnnsched/scheduler/plugin/learningcurve"
	"gnnsched/scheduler/plugin/nodereservation"
	"gnnsched/scheduler/plugin/overcommit"
	"gnnsched/scheduler/usage"
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
	p.config.KubeConfig.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return rebinding{newRefusals(next, klog.FromContext(ctx).WithName(logging.ProjectLogger))}
	})
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

// componentName is the name of kube-scheduler in its endpoint's answers.
const componentName = "kube-scheduler"

// endpointStop is the time that open requests to the endpoint get when the process stops.
const endpointStop = 5 * time.Second

// serveEndpoint starts the endpoint, if the configuration has a port. stop ends it. /configz is of the whole process, so of several
// schedulers in it only one may have an endpoint.
func (p *process) serveEndpoint(ctx context.Context) (stop func(), err error) {
	if p.config.SecureServing == nil {
		return func() {}, nil
	}
	if err := p.publishConfig(); err != nil {
		return nil, err
	}
	forget := func() { configz.Delete(configzName) } // otherwise the next scheduler in this process fails
	end, err := serveOn(p.config, p.paths(ctx))
	if err != nil {
		forget()
		return nil, err
	}
	return func() { end(); forget() }, nil
}

// serveOn serves the paths at the configuration's port, if it has one, behind upstream's filters. stop ends it.
func serveOn(c *schedulerserver.Config, paths http.Handler) (stop func(), err error) {
	if c.SecureServing == nil {
		return func() {}, nil
	}
	ended := make(chan struct{})
	done, _, err := c.SecureServing.Serve(metric.GuardSlowClients(guarded(c, paths), metric.SlowClientLimit), endpointStop, ended)
	if err != nil {
		close(ended)
		return nil, fmt.Errorf("start the endpoint: %w", err)
	}
	return func() {
		close(ended)
		<-done
	}, nil
}

const configzName = "componentconfig"

// publishConfig makes the configuration the content of /configz.
func (p *process) publishConfig() error {
	external := &schedulerconfig.KubeSchedulerConfiguration{}
	if err := conversion.Convert_config_KubeSchedulerConfiguration_To_v1_KubeSchedulerConfiguration(&p.config.ComponentConfig, external,
		nil); err != nil {
		return fmt.Errorf("convert the configuration: %w", err)
	}
	external.SetGroupVersionKind(schedulerconfig.SchemeGroupVersion.WithKind("KubeSchedulerConfiguration"))
	cz, err := configz.New(configzName)
	if err != nil {
		return fmt.Errorf("publish the configuration: %w", err)
	}
	return cz.Set(external)
}

// guarded puts upstream's filters before the paths.
func guarded(c *schedulerserver.Config, paths http.Handler) http.Handler {
	resolver := &apirequest.RequestInfoFactory{}
	h := genericapifilters.WithAuthorization(paths, c.Authorization.Authorizer, scheme.Codecs)
	h = genericapifilters.WithAuthentication(h, c.Authentication.Authenticator, genericapifilters.Unauthorized(scheme.Codecs), nil, nil)
	h = genericapifilters.WithRequestInfo(h, resolver)
	h = genericapifilters.WithCacheControl(h)
	h = genericfilters.WithHTTPLogging(h)
	return genericfilters.WithPanicRecovery(h, resolver)
}

// paths returns the paths of the endpoint.
func (p *process) paths(ctx context.Context) http.Handler {
	m := mux.NewPathRecorderMux(componentName)
	var healthChecks []healthz.HealthChecker
	if e := p.config.LeaderElection; e != nil {
		healthChecks = append(healthChecks, e.WatchDog)
	}
	healthz.InstallHandler(m, healthChecks...)
	healthz.InstallLivezHandler(m)
	healthz.InstallReadyzHandler(m, append(healthChecks,
		healthz.NewShutdownHealthz(ctx.Done()),
		healthz.NamedCheck("sched-handler-sync", func(r *http.Request) error { return p.current.Load().checkSynced(r) }),
	)...)
	configz.InstallHandler(m)
	m.Handle("/metrics", legacyregistry.HandlerWithReset())
	m.HandleFunc("/metrics/resources", p.serveResources)
	if p.records.Book != nil {
		m.Handle(decision.DebugPath, p.records.Book)
	}
	m.Handle(learningcurve.Path, p.records.Curves) // a nil one answers that nothing learns
	m.HandleFunc(usage.Path, usage.ServeReports)
	slis.SLIMetricsWithReset{}.Install(m)
	if k := p.config.ComponentConfig; k.EnableProfiling {
		routes.Profiling{}.Install(m)
		if k.EnableContentionProfiling {
			goruntime.SetBlockProfileRate(1)
		}
		routes.DebugFlags{}.Install(m, "v", routes.StringFlagPutHandler(logs.GlogSetter))
	}
	if p.config.Flagz != nil && utilfeature.DefaultFeatureGate.Enabled(zpagesfeatures.ComponentFlagz) {
		flagz.Install(m, componentName, p.config.Flagz)
	}
	if utilfeature.DefaultFeatureGate.Enabled(zpagesfeatures.ComponentStatusz) {
		statusz.Install(m, componentName, statusz.NewRegistry(compatibility.DefaultBuildEffectiveVersion(),
			statusz.WithListedPaths(m.ListedPaths())))
	}
	return m
}

// serveResources serves the metrics of pods' resources, while this process schedules.
func (p *process) serveResources(w http.ResponseWriter, r *http.Request) {
	if i := p.current.Load(); i.schedules() {
		resources.Handler(i.informers.Core().V1().Pods().Lister()).ServeHTTP(w, r)
	}
}

// openPaths are the paths that everybody may read.
var openPaths = []string{"/healthz", "/livez", "/readyz"}

// tokenUnlessHealth wraps the endpoint's authenticator, which takes a caller without a token for the
// anonymous user, so that it does so at openPaths only. Elsewhere such a caller gets status 401.
// Upstream leaves anonymous callers to the cluster's authorization, which allows everything on a
// simulated cluster.
//
// DelegatingAuthenticationOptions.Anonymous would do the same, but its ApplyTo ignores it.
func tokenUnlessHealth(next authenticator.Request) authenticator.Request {
	refused := rate.Sometimes{Interval: time.Minute}
	return authenticator.RequestFunc(func(r *http.Request) (*authenticator.Response, bool, error) {
		response, ok, err := next.AuthenticateRequest(r)
		if err != nil { // upstream would log each: whoever reaches the port could fill a disk
			refused.Do(func() {
				klog.FromContext(r.Context()).Error(err, "A caller of the endpoint was refused; said once a minute")
			})
			return nil, false, nil
		}
		if ok && response.User.GetName() == user.Anonymous && !slices.Contains(openPaths, r.URL.Path) {
			return nil, false, nil
		}
		return response, ok, nil
	})
}

// Observer is for a program that has a scheduler's configuration, cluster and endpoint, and schedules
// nothing. It takes no lease.
type Observer struct {
	REST   *rest.Config
	Client kubernetes.Interface
	// Scheduler is the configuration that a scheduler would run with.
	Scheduler *config.KubeSchedulerConfiguration

	config *schedulerserver.Config
}

// NewObserver reads the configuration file as Run does, with the same errors. The caller must call Close.
func NewObserver(ctx context.Context, configFile string, e Endpoint) (*Observer, error) {
	if err := e.check(); err != nil {
		return nil, err
	}
	o, err := e.options(configFile)
	if err != nil {
		return nil, err
	}
	if o.ComponentConfig, err = latest.Default(); err != nil {
		return nil, err
	}
	c, err := (*schedulerserver.Config)(nil), errors.Join(o.Validate()...)
	if err == nil {
		c, err = o.Config(ctx)
	}
	if err != nil {
		return nil, exit.New(exit.Usage, fmt.Errorf("set up the scheduler's profile: %w", err), "check the flags, or the file given by --config")
	}
	if a := &c.Authentication; a.Authenticator != nil {
		a.Authenticator = tokenUnlessHealth(a.Authenticator)
	}
	return &Observer{REST: c.KubeConfig, Client: c.Client, Scheduler: &c.ComponentConfig, config: c}, nil
}

// Serve serves health, metrics, profiles of the process if the configuration wants them, and handlers at paths of their own at the
// endpoint until stop is called. ready tells whether /readyz succeeds.
func (o *Observer) Serve(ready func() error, at map[string]http.Handler) (stop func(), err error) {
	m := mux.NewPathRecorderMux(componentName)
	healthz.InstallHandler(m)
	healthz.InstallLivezHandler(m)
	healthz.InstallReadyzHandler(m, healthz.NamedCheck("synced", func(*http.Request) error { return ready() }))
	m.Handle("/metrics", legacyregistry.HandlerWithReset())
	if o.Scheduler.EnableProfiling {
		routes.Profiling{}.Install(m)
	}
	for path, handler := range at {
		m.Handle(path, handler)
	}
	return serveOn(o.config, m)
}

// Close frees what NewObserver made.
func (o *Observer) Close() { o.config.EventBroadcaster.Shutdown() }

// broadcaster is upstream's broadcaster of events, for schedulers of any name.
type broadcaster struct{ events.EventBroadcasterAdapter }

// NewRecorder returns a recorder of events for a scheduler, whose name they have as reporting controller.
func (b broadcaster) NewRecorder(scheduler string) events.EventRecorderLogger {
	return b.EventBroadcasterAdapter.NewRecorder(controller(scheduler))
}

// controller returns the scheduler's name, with dashes for what the API server refuses in a reporting controller: a pod may have
// any schedulerName, such as greedy:traffic+overload, but an event may not.
func controller(scheduler string) string {
	if len(validation.IsQualifiedName(scheduler)) == 0 {
		return scheduler
	}
	name := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '.', r == '_':
			return r
		}
		return '-'
	}, scheduler)
	name = strings.Trim(name[:min(len(name), validation.LabelValueMaxLength)], "-._")
	return cmp.Or(name, "gnnsched")
}

// instance is a kube-scheduler with its informers. It schedules once; a process that loses its lease
// makes a new one.
type instance struct {
	client    kubernetes.Interface
	sched     *scheduler.Scheduler
	informers informers.SharedInformerFactory
	dynamic   dynamicinformer.DynamicSharedInformerFactory
	ctx       context.Context // of the informers and the plugins' goroutines
	end       context.CancelFunc
	synced    chan struct{} // closed when the informers' first objects are in the scheduler's cache
	active    chan struct{} // closed when it schedules
}

// newInstance makes a scheduler that ends with ctx.
func newInstance(ctx context.Context, c *schedulerserver.Config, records plugin.Recording) (*instance, error) {
	i := &instance{client: c.Client, synced: make(chan struct{}), active: make(chan struct{})}
	i.ctx, i.end = context.WithCancel(ctx)
	dynamicClient, err := dynamic.NewForConfig(c.KubeConfig)
	if err != nil {
		i.end()
		return nil, fmt.Errorf("make a client: %w", err)
	}
	i.informers = kuberelease.Informers(c.Client)
	i.dynamic = dynamicinformer.NewDynamicSharedInformerFactory(dynamicClient, 0)
	k := &c.ComponentConfig
	i.sched, err = scheduler.New(i.ctx, c.Client, i.informers, i.dynamic,
		func(name string) events.EventRecorderLogger { return c.EventBroadcaster.NewRecorder(name) },
		scheduler.WithComponentConfigVersion(k.APIVersion),
		scheduler.WithKubeConfig(c.KubeConfig),
		scheduler.WithProfiles(k.Profiles...),
		scheduler.WithPercentageOfNodesToScore(k.PercentageOfNodesToScore),
		scheduler.WithFrameworkOutOfTreeRegistry(plugin.RecordingRegistry(i.active, records)),
		scheduler.WithPodMaxBackoffSeconds(k.PodMaxBackoffSeconds),
		scheduler.WithPodInitialBackoffSeconds(k.PodInitialBackoffSeconds),
		scheduler.WithPodMaxInUnschedulablePodsDuration(c.PodMaxInUnschedulablePodsDuration),
		scheduler.WithExtenders(k.Extenders...),
		scheduler.WithParallelism(k.Parallelism),
	)
	if err != nil {
		i.end()
		return nil, err
	}
	timeAttempts(i.sched)
	if err := overcommit.Guard(i.ctx, i.sched, clock.RealClock{}); err != nil {
		i.end()
		return nil, err
	}
	if records.Book != nil {
		plugin.WatchFailures(i.sched, records.Failed(i.ctx, slices.Collect(maps.Keys(i.sched.Profiles))))
	}
	return i, nil
}

// enable enables LearnedScore where it keeps pods to held nodes, in each profile that it scores for, and, if it hears, where it learns what
// became of its decisions.
func enable(profiles []config.KubeSchedulerProfile, hears bool) {
	for i := range profiles {
		p := profiles[i].Plugins
		if p == nil || !enables(p.PreScore) && !enables(p.MultiPoint) {
			continue
		}
		points := []*config.PluginSet{&p.PreFilter}
		if hears {
			points = append(points, &p.Reserve, &p.PostBind)
		}
		for _, set := range points {
			if !enables(*set) && !enables(p.MultiPoint) {
				set.Enabled = append(set.Enabled, config.Plugin{Name: plugin.Name})
			}
		}
	}
}

// enables reports whether the set enables LearnedScore.
func enables(s config.PluginSet) bool {
	return slices.ContainsFunc(s.Enabled, func(p config.Plugin) bool { return p.Name == plugin.Name })
}

// startInformers starts the informers, unless that was done, and waits until the scheduler's cache has
// their objects.
func (i *instance) startInformers() {
	if i.checkSynced(nil) == nil {
		return
	}
	i.informers.StartWithContext(i.ctx)
	i.dynamic.Start(i.ctx.Done())
	i.informers.WaitForCacheSync(i.ctx.Done())
	i.dynamic.WaitForCacheSync(i.ctx.Done())
	if err := i.sched.WaitForHandlersSync(i.ctx); err != nil {
		return // ctx has ended
	}
	close(i.synced)
}

// checkSynced is a health check: it returns nil once the scheduler's cache is filled.
func (i *instance) checkSynced(*http.Request) error {
	select {
	case <-i.synced:
		return nil
	default:
		return fmt.Errorf("handlers are not fully synchronized")
	}
}

// schedules reports whether the instance schedules.
func (i *instance) schedules() bool {
	select {
	case <-i.active:
		return true
	default:
		return false
	}
}

// giveBack uncordons the nodes of runs of gnnsched defrag that were killed, when their time is over. Without the right to write nodes, they
// stay cordoned until the next run.
func (i *instance) giveBack(ctx context.Context) {
	nodes, err := i.informers.Core().V1().Nodes().Lister().List(labels.Everything())
	if err != nil {
		return // a lister of a cache has none
	}
	names, err := nodereservation.GiveBack(ctx, i.client, nodes, func(until time.Time) bool { return time.Now().After(until) })
	if len(names) > 0 {
		klog.FromContext(ctx).Info("Gave nodes back that a killed run of gnnsched defrag had cordoned", "nodes", names, "err", err)
	}
}

// schedule schedules until ctx ends, and then closes the plugins.
func (i *instance) schedule(ctx context.Context) {
	go wait.UntilWithContext(ctx, i.giveBack, time.Minute)
	defer i.end()
	close(i.active)
	i.sched.Run(ctx)
}

// close ends an instance that never scheduled.
func (i *instance) close(ctx context.Context) {
	defer i.end()
	if err := i.sched.Profiles.Close(); err != nil {
		klog.FromContext(ctx).Error(err, "Failed to close plugins")
	}
}
