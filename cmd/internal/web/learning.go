package web

import "gnnsched/scheduler/plugin/learningcurve"

// learning describes the profiles that learn.
type learning struct {
	Times    []int64   `json:"times"` // of the samples, Unix seconds
	Profiles []learned `json:"profiles"`
}

// learned describes a profile that learns.
type learned struct {
	Name     string                `json:"name"`
	Reported bool                  `json:"reported"` // by the trainer
	Totals   []learningcurve.Total `json:"totals"`   // since the scheduler began
	Curves   []learningcurve.Curve `json:"curves"`
}

// publishLearning publishes how the profiles learn, if one does.
func (s *server) publishLearning() {
	samples := s.config.Curves.Samples()
	if len(samples.Times) == 0 {
		return
	}
	out := learning{Times: samples.Times}
	for _, name := range samples.Names() {
		out.Profiles = append(out.Profiles, learned{name, samples.Reported(name), samples.Totals(name), samples.Curves(name)})
	}
	s.tell(topicLearning, out)
}
