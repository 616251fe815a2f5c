package replay

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/kubernetes/pkg/scheduler/apis/config"

	"gnnsched/scheduler/decision"
	"gnnsched/scheduler/memcluster"
	"gnnsched/scheduler/plugin"
)

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
