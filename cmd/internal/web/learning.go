package web

import "gnnsched/scheduler/plugin/course"

// learning is how the profiles that learn do so.
type learning struct {
	Times    []int64   `json:"times"` // of the samples, Unix seconds
	Profiles []learned `json:"profiles"`
}

// learned is how a profile learns.
type learned struct {
	Name   string             `json:"name"`
	Now    map[string]float64 `json:"now"` // the last value of each figure
	Curves []course.Curve     `json:"curves"`
}

// publishLearning publishes how the profiles learn, if one does.
func (s *server) publishLearning() {
	samples := s.config.Course.Samples()
	if len(samples.Times) == 0 {
		return
	}
	out := learning{Times: samples.Times}
	for _, name := range samples.Names() {
		p := learned{Name: name, Now: map[string]float64{}, Curves: samples.Curves(name)}
		for figure, column := range samples.Profiles[name] {
			if v, known := column.Last(); known {
				p.Now[figure] = v
			}
		}
		out.Profiles = append(out.Profiles, p)
	}
	s.tell(topicLearning, out)
}
