package server

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	schedulerserver "k8s.io/kubernetes/cmd/kube-scheduler/app/config"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/utils/clock"

	"gnnsched/internal/kuberelease"
	"gnnsched/scheduler/plugin"
	"gnnsched/scheduler/plugin/nodereservation"
	"gnnsched/scheduler/plugin/overcommit"
)

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
