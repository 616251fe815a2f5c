package main

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"
	"k8s.io/kubernetes/pkg/scheduler"

	"gnnsched/internal/kuberelease"
	"gnnsched/scheduler/plugin"
	"gnnsched/scheduler/server"
)

// measureLoop compares the profiles in kube-scheduler's loop (queue, cache, snapshot, plugins,
// binding) with a client that keeps its objects in memory.
func (o *options) measureLoop(ctx context.Context, nodes int, s share) (result, error) {
	what := fmt.Sprintf("loop alone, %d nodes, %v", nodes, s)
	return o.compare(ctx, what, o.inProcess(what, func(ctx context.Context, profile string) (run, error) {
		return o.runLoop(ctx, profile, nodes, s)
	}))
}

// runLoop binds one backlog with a profile.
func (o *options) runLoop(ctx context.Context, profile string, nodes int, s share) (run, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// The fake client's watches panic when they are full, and they have no reader while the backlog is created.
	watch.DefaultChanSize = int32(max(watch.DefaultChanSize, int32(4*(nodes+s.pods))))
	client := fake.NewSimpleClientset()
	for i := range nodes {
		if err := client.Tracker().Add(node(i)); err != nil {
			return run{}, err
		}
	}
	for i := range s.pods {
		if err := client.Tracker().Add(pod(profile, i)); err != nil {
			return run{}, err
		}
	}
	bound := newMeter(s.pods)
	bind(client, bound)
	sched, err := o.newScheduler(ctx, client, s.percentage)
	if err != nil {
		return run{}, err
	}
	done := make(chan struct{})
	go func() { defer close(done); sched.Run(ctx) }()
	r, err := bound.wait(ctx)
	cancel()
	<-done
	return r, err
}

// newScheduler returns a scheduler with the backlog in its queue.
func (o *options) newScheduler(ctx context.Context, client *fake.Clientset, percentage int) (*scheduler.Scheduler, error) {
	k, err := o.config(percentage).Decode()
	if err != nil {
		return nil, err
	}
	informers := kuberelease.Informers(client)
	sched, err := scheduler.New(ctx, client, informers, nil,
		func(string) events.EventRecorderLogger { return &events.FakeRecorder{} },
		scheduler.WithProfiles(k.Profiles...),
		scheduler.WithFrameworkOutOfTreeRegistry(plugin.Registry(nil)),
		scheduler.WithPercentageOfNodesToScore(k.PercentageOfNodesToScore),
		scheduler.WithParallelism(k.Parallelism),
	)
	if err != nil {
		return nil, err
	}
	informers.Start(ctx.Done())
	informers.WaitForCacheSync(ctx.Done())
	return sched, sched.WaitForHandlersSync(ctx)
}

// loopQPS is the client's limit of requests a second. It is above kubeconfig.UnlimitedQPS, because a
// fake API server takes more bindings a second than a real one.
const loopQPS = 10_000

// config returns the scheduler configuration of a run, with both profiles.
func (o *options) config(percentage int) server.Config {
	return server.Config{
		QPS: loopQPS, Parallelism: int32(o.parallelism), PercentageOfNodesToScore: int32(percentage),
		Profiles: []server.Profile{
			{SchedulerName: server.DefaultProfile, Args: plugin.Args{Variant: server.DefaultProfile}},
			{SchedulerName: o.variant, Args: plugin.Args{Variant: o.variant, Checkpoint: o.checkpoint, Preferences: o.preferences}},
		},
	}
}

// bind makes the fake client set a pod's node on a binding, as the API server does, and counts it.
func bind(client *fake.Clientset, bound *meter) {
	pods := v1.SchemeGroupVersion.WithResource("pods")
	client.PrependReactor("create", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
		if a.GetSubresource() != "binding" {
			return false, nil, nil
		}
		b := a.(clienttesting.CreateAction).GetObject().(*v1.Binding)
		o, err := client.Tracker().Get(pods, a.GetNamespace(), b.Name)
		if err != nil {
			return true, nil, err
		}
		p := o.(*v1.Pod).DeepCopy()
		p.Spec.NodeName = b.Target.Name
		if err := client.Tracker().Update(pods, p, a.GetNamespace()); err != nil {
			return true, nil, err
		}
		bound.add()
		return true, b, nil
	})
}
