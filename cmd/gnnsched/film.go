package main

import (
	"context"
	"sync"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"

	"gnnsched/cmd/internal/top/state"
	clusterwatch "gnnsched/cmd/internal/top/watch"
	"gnnsched/internal/runfolder"
)

// film writes frames of a running cluster into a run folder, for the heat maps of gnnsched report.
type film struct {
	writer    *runfolder.Writer
	scenario  string
	contender string
	clock     clock.Clock
	begin     time.Time
	frame     func() state.Frame
	still     context.CancelFunc // ends the frames
	stop      func()             // ends the watch
	done      sync.WaitGroup
	nodes     int // in the last frame
}

// startFilm watches the nodes and pods of a cluster and writes frames of it, in seconds since now, under the names of a
// scenario and a contender, until End.
func startFilm(ctx context.Context, client kubernetes.Interface, w *runfolder.Writer, scenario, contender string) (*film, error) {
	source, err := clusterwatch.Start(ctx, clusterwatch.Config{Client: client})
	if err != nil {
		return nil, err
	}
	f := &film{
		writer: w, scenario: scenario, contender: contender, clock: clock.RealClock{}, frame: func() state.Frame { return source.Frame(0) },
		stop: source.Stop,
	}
	f.run(ctx)
	return f, nil
}

// run takes the first frame and starts to take the others.
func (f *film) run(ctx context.Context) {
	ctx, f.still = context.WithCancel(ctx)
	f.begin = f.clock.Now()
	f.take()
	f.done.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-f.clock.After(runfolder.Pause(f.clock.Since(f.begin), f.nodes)):
				f.take()
			}
		}
	})
}

// End takes the last frame, and stops.
func (f *film) End() {
	f.still()
	f.done.Wait()
	f.take()
	f.stop()
}

// take writes a frame of the worker nodes. Others get no ordinary pods.
func (f *film) take() {
	now := f.frame()
	out := runfolder.Frame{
		Scenario: f.scenario, Contender: f.contender, At: f.clock.Since(f.begin).Round(time.Millisecond).Seconds(), Waiting: now.PendingCount,
		Nodes: []runfolder.Node{},
	}
	for _, n := range now.Nodes {
		if n.Worker {
			out.Nodes = append(out.Nodes, runfolder.Node{
				Name: n.Name, CPU: n.CPU.Fraction(), Memory: n.Memory.Fraction(), GPU: n.GPU.Fraction(), Pods: n.Pods.Requested,
			})
		}
	}
	f.nodes = len(out.Nodes)
	f.writer.Add(out)
}
