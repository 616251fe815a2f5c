package learningcurve

import (
	"maps"
	"math"
	"slices"
)

// Curve is a figure of a profile over the times of its samples.
type Curve struct {
	Name   string `json:"name"`   // short, for a table
	Chart  string `json:"chart"`  // the title of the chart that it belongs into, with others of the same unit
	About  string `json:"about"`  // what it is, in a sentence without a full stop
	Values Column `json:"values"` // at each time
}

// figure says how a figure is shown. Counts are shown by the minute if rate is set, else as they are.
type figure struct {
	name  string
	rate  bool
	curve Curve
}

// figures are the known figures in the order in which they are shown. Others of the trainer follow them.
var figures = []figure{
	{Cost, false, Curve{Name: "cost", Chart: "Cost of the cluster",
		About: "the objective's cost when pods came, mean between two reports; learning lowers it"}},
	{Reward, false, Curve{Name: "reward", Chart: "Reward", About: "reward of a placement, mean between two reports of the trainer"}},
	{Loss, false, Curve{Name: "loss", Chart: "Loss",
		About: "loss of the updates, mean between two reports; of an actor-critic, the policy's"}},
	{Score, false, Curve{Name: "held-out score", Chart: "Score on held-out episodes",
		About: "of the last network that the guard judged, less is better"}},
	{ScoreLimit, false, Curve{Name: "limit of the score", Chart: "Score on held-out episodes",
		About: "the guard refuses a network with a score over this"}},
	{Passed, false, Curve{Name: "networks passed", Chart: "Networks that the guard judged",
		About: "networks that the guard let pass; the scheduler loads each of them"}},
	{Refused, false, Curve{Name: "networks refused", Chart: "Networks that the guard judged",
		About: "networks that the guard refused; the scheduler keeps the last one that passed"}},
	{Updates, true, Curve{Name: "updates/min", Chart: "Updates a minute", About: "updates of the network that learns, a minute"}},
	{Sent, true, Curve{Name: "placements/min", Chart: "Placements a minute", About: "placements that were sent to the trainer, a minute"}},
	{Dropped, true, Curve{Name: "dropped/min", Chart: "Placements a minute", About: "placements that the trainer was too slow for, a minute"}},
	{Unbound, true, Curve{Name: "not bound/min", Chart: "Placements a minute", About: "placements whose pod did not get its node, a minute"}},
	{Overruled, true, Curve{Name: "overruled/min", Chart: "Placements a minute",
		About: "placements in which other scores chose another node than the network, a minute"}},
	{Stale, true, Curve{Name: "stale/min", Chart: "Placements that are not learned from, a minute",
		About: "placements by another network than the one that learns, a minute"}},
	{Missing, true, Curve{Name: "missing/min", Chart: "Placements that are not learned from, a minute",
		About: "placements that are missing between those that the trainer read, a minute"}},
	{explored, true, Curve{Name: "explored/min", Chart: "Random decisions a minute",
		About: "random decisions a minute; of an actor-critic, nodes that were drawn and not the most likely"}},
	{epsilon, false, Curve{Name: "epsilon", Chart: "Probability of a random decision",
		About: "the probability with which the last decision was random; an actor-critic has none"}},
	{waited, true, Curve{Name: "pods that wait/min", Chart: "Pods that found no node at first, a minute",
		About: "pods that found no node at their first attempt, a minute"}},
	{GradientNorm, false, Curve{Name: "gradient norm", Chart: "Norm of the gradient",
		About: "norm of the gradient before clipping, mean between two reports"}},
	{loads, false, Curve{Name: "weights read", Chart: "Weights read, restarts of the trainer",
		About: "how many times the scheduler has read weights since it began"}},
	{Restarts, false, Curve{Name: "trainer restarts", Chart: "Weights read, restarts of the trainer",
		About: "how many times the trainer ended and was started again"}},
}

// Curves returns the curves of a profile, the most telling first.
func (s Samples) Curves(profile string) []Curve {
	columns := s.Profiles[profile]
	var out []Curve
	known := map[string]bool{Read: true} // sent says the same of the scheduler's side
	for _, f := range figures {
		known[f.name] = true
		column, has := columns[f.name]
		if !has {
			continue
		}
		c := f.curve
		if c.Values = column; f.rate {
			c.Values = s.perMinute(column)
		}
		out = append(out, c)
	}
	for _, name := range slices.Sorted(maps.Keys(columns)) {
		if !known[name] {
			out = append(out, Curve{Name: name, Chart: name, About: "a figure of this trainer, mean between two reports", Values: columns[name]})
		}
	}
	return out
}

// perMinute returns how much a count grew from each time to the next one, by the minute. The first value is not known.
func (s Samples) perMinute(count Column) Column {
	out := unknown(len(count))
	for i := 1; i < len(count) && i < len(s.Times); i++ {
		if seconds := s.Times[i] - s.Times[i-1]; seconds > 0 {
			out[i] = max(count[i]-count[i-1], 0) / float64(seconds) * 60
		}
	}
	return out
}

// Last returns the last value of a profile's figure that is known, and whether there is one.
func (s Samples) Last(profile, name string) (v float64, known bool) {
	return s.Profiles[profile][name].Last()
}

// Last returns the last value that is known, and whether there is one.
func (c Column) Last() (v float64, known bool) {
	for _, v := range slices.Backward(c) {
		if !math.IsNaN(v) {
			return v, true
		}
	}
	return 0, false
}

// Names returns the names of the profiles in order.
func (s Samples) Names() []string {
	return slices.Sorted(maps.Keys(s.Profiles))
}
