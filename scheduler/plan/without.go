package plan

import (
	"context"
	"fmt"
	"time"

	"k8s.io/kubernetes/pkg/scheduler/apis/config"

	"gnnsched/scheduler/replay"
	"gnnsched/workload/record"
)

// Profile is a profile of kube-scheduler with the name that results have.
type Profile struct {
	Name string
	config.KubeSchedulerProfile
}

// Losses are the effects on a cluster that loses nodes: at the end of the record, and at its busiest time if that is another one.
type Losses struct {
	Times []LossAt `json:"times"`
	Notes []string `json:"notes,omitempty"`
}

// LossAt is the effect of a loss at a time.
type LossAt struct {
	At       time.Time `json:"at"`
	What     string    `json:"what"` // which time this is
	Lost     `json:"cluster"`
	Profiles []Loss `json:"profiles"`
}

// Without removes the nodes that gone selects, at the end of the source's window and at its busiest time. Each profile places the waiting
// pods and the pods that were on these nodes. All others stay where they are. progress gets the fraction of the work that is done.
func Without(
	ctx context.Context, s replay.Source, gone func(*record.Node) bool, profiles []Profile, progress func(done float64),
) (Losses, error) {
	out := Losses{Notes: s.Notes}
	times, names := []int64{s.To - 1}, []string{"the time of the plan"}
	if busy := busiest(s); busy != s.To-1 {
		times, names = append(times, busy), append(names, "the busiest time")
	}
	for i, t := range times {
		then := s
		then.To = t + 1
		at := LossAt{At: time.UnixMilli(t).UTC(), What: names[i]}
		var less replay.Source
		less, at.Lost = Lose(then, gone)
		for k, p := range profiles {
			share := float64(i*len(profiles)+k) / float64(len(times)*len(profiles))
			progress(share)
			l := Loss{Profile: p.Name}
			var err error
			if l.Before, err = unplaceable(ctx, then, p.KubeSchedulerProfile); err != nil {
				return out, fmt.Errorf("%s: %w", p.Name, err)
			}
			if l.After, err = unplaceable(ctx, less, p.KubeSchedulerProfile); err != nil {
				return out, fmt.Errorf("%s: %w", p.Name, err)
			}
			at.Profiles = append(at.Profiles, l)
		}
		out.Times = append(out.Times, at)
	}
	return out, nil
}
