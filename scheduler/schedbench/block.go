package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"runtime/metrics"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"gnnsched/scheduler/eval/testbed"
)

// block is the process's cost of a block of pods.
type block struct {
	cpu, wall float64 // microseconds a pod
	allocated float64 // KB a pod
}

// collection is one of the whole heap.
type collection struct {
	cpu  float64 // microseconds
	live float64 // KB that are in use after it
}

// settles is the time for which a block goes on after its last pod, for unawaited work such as records.
const settles = 20 * time.Millisecond

// clean deletes the pods, collects the garbage and begins to watch pods.
func (r *recordingCost) clean(ctx context.Context, b *testbed.Bed) (out collection, err error) {
	if r.watch != nil {
		r.watch.Stop()
	}
	if err := deletePods(ctx, b.Client); err != nil {
		return out, err
	}
	pods := b.Client.CoreV1().Pods(metav1.NamespaceDefault)
	list, err := pods.List(ctx, metav1.ListOptions{})
	if err != nil {
		return out, err
	}
	if r.watch, err = watchPods(ctx, pods, list.ResourceVersion, ""); err != nil {
		return out, err
	}
	time.Sleep(settles)
	before := now().cpu
	runtime.GC()
	return collection{cpu: micros(now().cpu - before), live: readMemory().live}, nil
}

// block creates pods for the scheduler of a way and waits until each runs, or exists if there is no scheduler.
func (r *recordingCost) block(ctx context.Context, b *testbed.Bed, way int) (out block, err error) {
	scheduler, awaited := r.scheduler(way), map[string]bool{}
	for i := range r.pods {
		awaited[pod(scheduler, r.created+i).Name] = true
	}
	before, memory := now(), readMemory()
	done := make(chan error, 1)
	go func() { done <- await(ctx, r.watch, awaited, way == len(recordings)-1) }()
	if err := createPods(ctx, b.Client, scheduler, r.created, r.pods); err != nil {
		return out, err
	}
	r.created += r.pods
	if err := <-done; err != nil {
		return out, err
	}
	run := now()
	time.Sleep(settles)
	pods := float64(r.pods)
	return block{
		cpu: micros(now().cpu-before.cpu) / pods, wall: micros(run.wall.Sub(before.wall)) / pods,
		allocated: (readMemory().allocated - memory.allocated) / pods,
	}, nil
}

// await returns once the named pods run, or exist if there is no scheduler.
func await(ctx context.Context, w watch.Interface, names map[string]bool, unscheduled bool) error {
	for len(names) > 0 {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(stalled):
			return fmt.Errorf("%d pods do not run, and no pod changed in the last %v: %w", len(names), stalled, os.ErrDeadlineExceeded)
		case e, open := <-w.ResultChan():
			p, is := e.Object.(*v1.Pod)
			if !open || !is {
				return fmt.Errorf("the watch of the pods ended: %v", e.Object)
			}
			if unscheduled || p.Status.Phase == v1.PodRunning {
				delete(names, p.Name)
			}
		}
	}
	return nil
}

// memory is the process's total allocation since its start, and the live memory after the last collection, in KB.
type memory struct{ allocated, live float64 }

func readMemory() memory {
	s := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}, {Name: "/gc/heap/live:bytes"}}
	metrics.Read(s)
	return memory{allocated: float64(s[0].Value.Uint64()) / 1024, live: float64(s[1].Value.Uint64()) / 1024}
}

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }
