package replay

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"

	"gnnsched/scheduler/memcluster"
	"gnnsched/scheduler/objective"
	"gnnsched/workload/record"
)

// End returns the cluster at the end of the window, with its pods on their real nodes and with the profile's filters. Notes describe
// unreadable parts of the record. ctx ends the plugins.
func End(ctx context.Context, s Source, profile config.KubeSchedulerProfile) (cluster *memcluster.Placements, notes []string, err error) {
	s.From = s.To - 1 // earlier events do not matter
	p, err := really(ctx, s, Config{Profile: profile})
	if err != nil {
		return nil, nil, err
	}
	p.Allot(s.Devices)
	return p.Placements, p.objects.Notes(), nil
}

// really returns the course of what really happened, at its end. ctx ends the plugins.
func really(ctx context.Context, s Source, c Config) (*course, error) {
	c.Objective, c.Blocks = objective.Balance{}, 1
	p, err := begin(ctx, s, c, true)
	if err != nil {
		return nil, err
	}
	return p, p.run(ctx)
}

// Pod returns the pod of a row as an object of Kubernetes' API, without its node. It leaves out unreadable values.
func Pod(r *record.Pod) *v1.Pod { return newObjects().pod(r) }
