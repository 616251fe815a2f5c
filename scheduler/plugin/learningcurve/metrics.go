package learningcurve

import dto "github.com/prometheus/client_model/go"

// counters are the names of figures that are counts, by the metric and the value of its label result.
var counters = map[string]map[string]string{
	"gnnsched_learning_steps_total":     {Sent: Sent, Dropped: Dropped, Unbound: Unbound, Overruled: Overruled},
	"gnnsched_explored_total":           {"": explored},
	"gnnsched_waited_total":             {"": waited},
	"gnnsched_checkpoint_loads_total":   {"ok": loads},
	"gnnsched_trainer_restarts_total":   {"": Restarts},
	"gnnsched_trainer_placements_total": {Read: Read, Missing: Missing, Stale: Stale},
	"gnnsched_trainer_updates_total":    {"": Updates},
	"gnnsched_trainer_networks_total":   {Passed: Passed, Refused: Refused},
}

// learns is the metric that every profile that learns has, and no other.
const learns = "gnnsched_learning_steps_total"

// figuresOf reads the metrics of the profiles that learn: by profile, the figures by name.
func figuresOf(families []*dto.MetricFamily) map[string]map[string]float64 {
	out := map[string]map[string]float64{}
	each(families, learns, func(labels map[string]string, _ float64) { out[labels["profile"]] = map[string]float64{} })
	set := func(profile, name string, v float64) {
		if values := out[profile]; values != nil && name != "" {
			values[name] = v
		}
	}
	// The trainer's come first, so that none of them takes the place of a count.
	each(families, "gnnsched_trainer_figure", func(labels map[string]string, v float64) { set(labels["profile"], labels["figure"], v) })
	each(families, "gnnsched_epsilon", func(labels map[string]string, v float64) { set(labels["profile"], epsilon, v) })
	for name, results := range counters {
		each(families, name, func(labels map[string]string, v float64) { set(labels["profile"], results[labels["result"]], v) })
	}
	return out
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
