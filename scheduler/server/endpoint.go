package server

import (
	"context"
	"fmt"
	"net/http"
	goruntime "runtime"
	"slices"
	"time"

	"golang.org/x/time/rate"
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
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/component-base/configz"
	"k8s.io/component-base/logs"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/component-base/metrics/prometheus/slis"
	zpagesfeatures "k8s.io/component-base/zpages/features"
	"k8s.io/klog/v2"
	schedulerconfig "k8s.io/kube-scheduler/config/v1"
	schedulerserver "k8s.io/kubernetes/cmd/kube-scheduler/app/config"
	conversion "k8s.io/kubernetes/pkg/scheduler/apis/config/v1"
	"k8s.io/kubernetes/pkg/scheduler/metrics/resources"

	"gnnsched/internal/metric"
	"gnnsched/scheduler/decision"
	"gnnsched/scheduler/plugin/learningcurve"
	"gnnsched/scheduler/usage"
)

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
