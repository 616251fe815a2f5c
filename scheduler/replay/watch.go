package replay

import (
	"gnnsched/internal/cluster"
	"gnnsched/scheduler/memcluster"
	"gnnsched/workload/record"
)

// Watcher receives the events of a course while it is played. Times are seconds since the beginning of the window.
type Watcher interface {
	// Frame gets the nodes at a time, which it must not keep, and the number of waiting pods.
	Frame(at float64, nodes []*cluster.Node, waiting int)
	// Placed is called for a pod that gets a node in the window.
	Placed(p Placement)
	// Waited is called at the end with each pod of Course.Waits, and whether it got a node in the end.
	Waited(pod *record.Pod, seconds float64, placed bool)
}

// Placement is a pod that gets a node.
type Placement struct {
	At     float64
	Pod    *record.Pod
	Node   string
	Waited float64            // so far, in seconds
	By     *memcluster.Choice // nil: it really got the node
}

// film shows the state since the last event to the watcher, for all frames that are due before now, or at the end of the window.
func (p *course) film(now int64) error {
	n := p.config.Frames
	if p.config.Watch == nil || n < 2 {
		return nil
	}
	var nodes []*cluster.Node
	for length := p.source.To - p.source.From; p.frames < n; p.frames++ {
		due := length * int64(p.frames) / int64(n-1)
		if at := p.source.From + due; at >= now && at < p.source.To || now < p.source.To && at >= p.source.To {
			return nil
		}
		if nodes == nil {
			var err error
			if nodes, err = p.Nodes(); err != nil {
				return err
			}
		}
		p.config.Watch.Frame(float64(due)/1000, nodes, len(p.since))
	}
	return nil
}

// watchPlacement calls the watcher for a pod that gets a node, while it still counts as waiting.
func (p *course) watchPlacement(row int, node string, by *memcluster.Choice) {
	if p.config.Watch == nil {
		return
	}
	waited := p.waits[row]
	if from, waits := p.since[row]; waits {
		waited += p.source.Watched(from, p.now)
	}
	p.config.Watch.Placed(Placement{
		At: float64(p.now-p.source.From) / 1000, Pod: &p.source.Pods[row], Node: node, Waited: float64(waited) / 1000, By: by,
	})
}
