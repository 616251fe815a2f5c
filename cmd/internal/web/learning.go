package web

import (
	"maps"
	"slices"
	"time"

	dto "github.com/prometheus/client_model/go"
)

// mostSamples is how many samples of learning are kept: two hours.
const mostSamples = 720

// learned has a profile's progress so far, from the scheduler's metrics.
type learned struct {
	Sent      float64  `json:"sent"`      // placements that the trainer got
	Dropped   float64  `json:"dropped"`   // that it was too slow for
	Unbound   float64  `json:"unbound"`   // whose pod did not get its node
	Overruled float64  `json:"overruled"` // in which other scores chose another node
	Explored  float64  `json:"explored"`  // random decisions
	Waited    float64  `json:"waited"`    // pods that found no node at first
	Epsilon   *float64 `json:"epsilon,omitempty"`
	Loads     float64  `json:"loads"`    // weights that were read
	Restarts  float64  `json:"restarts"` // of the trainer
}

// sample has the progress of all profiles that learn at one time.
type sample struct {
	Time     time.Time          `json:"time"`
	Profiles map[string]learned `json:"profiles"`
}

// course is the course of learning: the last samples.
type course struct{ samples []sample }

// publishLearning takes a sample of the metrics, and publishes the course if a profile learns.
func (s *server) publishLearning() {
	if s.config.Gather == nil {
		return
	}
	families, err := s.config.Gather()
	if err != nil && len(families) == 0 {
		return // metrics that contradict each other; the rest is given beside the error
	}
	profiles := learnedOf(families)
	if len(profiles) == 0 {
		return
	}
	c := &s.course
	c.samples = append(c.samples, sample{s.config.Clock.Now().UTC().Truncate(time.Second), profiles})
	if len(c.samples) > mostSamples {
		c.samples = slices.Delete(c.samples, 0, len(c.samples)-mostSamples)
	}
	s.tell(topicLearning, c.samples)
}

// learnedOf reads the metrics of the profiles that learn.
func learnedOf(families []*dto.MetricFamily) map[string]learned {
	out := map[string]*learned{}
	each(families, "gnnsched_learning_steps_total", func(labels map[string]string, v float64) {
		p := out[labels["profile"]]
		if p == nil {
			p = &learned{}
			out[labels["profile"]] = p
		}
		switch labels["result"] {
		case "sent":
			p.Sent = v
		case "dropped":
			p.Dropped = v
		case "unbound":
			p.Unbound = v
		case "overruled":
			p.Overruled = v
		}
	})
	for name, set := range map[string]func(*learned, float64){
		"gnnsched_explored_total":         func(p *learned, v float64) { p.Explored = v },
		"gnnsched_waited_total":           func(p *learned, v float64) { p.Waited = v },
		"gnnsched_epsilon":                func(p *learned, v float64) { p.Epsilon = &v },
		"gnnsched_checkpoint_loads_total": func(p *learned, v float64) { p.Loads += v },
		"gnnsched_trainer_restarts_total": func(p *learned, v float64) { p.Restarts = v },
	} {
		each(families, name, func(labels map[string]string, v float64) {
			if p := out[labels["profile"]]; p != nil && labels["result"] != "error" {
				set(p, v)
			}
		})
	}
	values := map[string]learned{}
	for name := range maps.Keys(out) {
		values[name] = *out[name]
	}
	return values
}

// each calls do with the labels and the value of each metric of a family.
func each(families []*dto.MetricFamily, name string, do func(labels map[string]string, v float64)) {
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			do(labels, m.GetCounter().GetValue()+m.GetGauge().GetValue())
		}
	}
}
