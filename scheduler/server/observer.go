package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/apiserver/pkg/server/mux"
	"k8s.io/apiserver/pkg/server/routes"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/component-base/metrics/legacyregistry"
	schedulerserver "k8s.io/kubernetes/cmd/kube-scheduler/app/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"

	"gnnsched/internal/exit"
)

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
