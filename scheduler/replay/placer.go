package replay

import (
	"container/heap"
	"fmt"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gnnsched/scheduler/memcluster"
	"gnnsched/workload/record"
)

// Placed implements memcluster.Follower.
func (p *course) Placed(pod *v1.Pod, by memcluster.Choice) {
	row := p.rows[pod.UID]
	p.watchPlacement(row, pod.Spec.NodeName, &by)
	p.gotNode(row, pod.Spec.NodeName)
	if r := &p.source.Pods[row]; p.runsItsTime(row) {
		p.ends[row] = p.now + max(r.Ended-r.Bound, 1)
		heap.Push(&p.agenda, event{p.ends[row], podEnds, row})
	}
}

// Preempted implements memcluster.Follower. A pod that finishes by itself begins again.
func (p *course) Preempted(pod *v1.Pod) {
	p.out.Preempted++
	p.Lost(pod)
}

// Lost implements memcluster.Follower.
func (p *course) Lost(pod *v1.Pod) {
	row := p.rows[pod.UID]
	p.leftNode(row, pod.Spec.NodeName)
	delete(p.ends, row)
	if p.source.Pods[row].Daemon {
		return
	}
	p.since[row] = p.now
	if _, counted := p.began[row]; !counted {
		p.began[row] = p.now
	}
}

// Refused implements memcluster.Follower. The pod counts nowhere.
func (p *course) Refused(pod *v1.Pod, why error) {
	row := p.rows[pod.UID]
	delete(p.since, row)
	delete(p.began, row)
	delete(p.waits, row)
	p.ran[row] = true // that it never ran says nothing about the profile
	if p.out.Refused++; p.out.Refused <= namedRefusals {
		text := fmt.Sprintf("%s/%s is left out, because a plugin failed on it: %v", pod.Namespace, pod.Name, why)
		p.out.Notes = append(p.out.Notes, strings.ToValidUTF8(text[:min(len(text), maxNote)], ""))
	}
}

const (
	namedRefusals = 5   // number of refused pods that notes name
	maxNote       = 400 // bytes of one note, which may quote text of a pod's owner
)

// gotNode counts a pod on a node.
func (p *course) gotNode(row int, node string) {
	p.stopWaiting(row)
	p.ran[row] = true
	if r := &p.source.Pods[row]; !r.Daemon {
		p.used[node]++
	}
}

func (p *course) leftNode(row int, node string) {
	r := &p.source.Pods[row]
	if !r.Daemon {
		p.used[node]--
	}
	if r.End == record.Preempted && p.real {
		p.out.Preempted++
	}
}

func (p *course) stopWaiting(row int) {
	if from, waits := p.since[row]; waits {
		p.waits[row] += p.source.Watched(from, p.now)
		delete(p.since, row)
	}
}

func startOf(ms int64) *metav1.Time { return &metav1.Time{Time: time.UnixMilli(ms)} }

func count(is bool) int {
	if is {
		return 1
	}
	return 0
}
