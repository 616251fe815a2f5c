package replay

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"

	"gnnsched/scheduler/decision"
	"gnnsched/scheduler/memcluster"
	"gnnsched/scheduler/plugin"
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

// Newest returns the row of the pod with the name that arrived last; -1 if the source has none.
func (s *Source) Newest(namespace, name string) int {
	for i := len(s.Pods) - 1; i >= 0; i-- {
		if p := &s.Pods[i]; p.Namespace == namespace && p.Name == name {
			return i
		}
	}
	return -1
}

// Decide returns the profile's decision about the pod of a row, on the real cluster a millisecond before the pod got its node. For a pod
// that never got one, the time is the last at which it waited. The decision has everything that a record of decisions holds; it is nil if
// the profile has no network or policy. Notes describe unreadable parts of the source. An error names data that the source lacks.
func Decide(ctx context.Context, s Source, row int, profile config.KubeSchedulerProfile) (*decision.Decision, []string, error) {
	pod := &s.Pods[row]
	if pod.Daemon {
		return nil, nil, errors.New("the pod belongs to its node, so there was nothing to decide: it is static or of a DaemonSet")
	}
	when := s.To
	switch {
	case pod.Bound != 0:
		when = pod.Bound
	case pod.Ended != 0:
		when = pod.Ended
	}
	if when <= s.From || s.Watched(when-1, when) == 0 {
		return nil, nil, fmt.Errorf("nobody watched the cluster at %s, when it was decided where the pod goes", at(when))
	}
	s.From, s.To = when-1, when
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the plugins
	p, err := really(ctx, s, Config{Profile: profile, recording: plugin.Recording{Book: decision.NewBook(1, nil), DefaultShare: 1}})
	if err != nil {
		return nil, nil, err
	}
	choice, err := p.Choose(ctx, memcluster.On(p.objects.pod(pod), pod.Node))
	if err != nil {
		return nil, nil, fmt.Errorf("a plugin failed on the pod: %w", err)
	}
	if d := choice.Decision; d != nil {
		d.At, d.Really = time.UnixMilli(when), pod.Node
	}
	return choice.Decision, p.objects.Notes(), nil
}
