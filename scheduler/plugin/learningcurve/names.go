package learningcurve

// The names of the figures of a profile that learns. The trainer reports those of the first group, the scheduler's metrics have those of
// the second as labels or by names of their own, and everything that shows figures asks for them by these names.
const (
	Cost         = "cost"
	Reward       = "reward"
	Loss         = "loss"
	GradientNorm = "gradient_norm"
	Score        = "score"       // of the last network that the guard judged
	ScoreLimit   = "score_limit" // over which the guard refuses a network

	Read      = "read"    // placements that the trainer got
	Missing   = "missing" // between those
	Stale     = "stale"   // by another network than the one that learns
	Updates   = "updates"
	Passed    = "passed"  // networks that the guard let pass
	Refused   = "refused" // networks that it refused
	Sent      = "sent"    // placements to the trainer
	Dropped   = "dropped" // because the trainer was too slow
	Unbound   = "unbound" // whose pod did not get its node
	Overruled = "overruled"
	explored  = "explored" // random decisions
	epsilon   = "epsilon"
	waited    = "waited" // pods that found no node at first
	loads     = "loads"  // how often the scheduler read weights
	Restarts  = "restarts"
)

// totals are the titles of the counts since the scheduler began, in the order in which they are shown.
var totals = []struct{ name, title string }{
	{Sent, "To the trainer"}, {Dropped, "Dropped"}, {Unbound, "Not bound"}, {Overruled, "Overruled"}, {explored, "Explored"},
	{waited, "Pods that waited"},
	{Updates, "Updates"}, {Passed, "Networks passed"}, {Refused, "Networks refused"}, {loads, "Weights read"}, {Restarts, "Trainer restarts"},
}

// Total is a count since the scheduler began.
type Total struct {
	Title string   `json:"title"`
	Count *float64 `json:"count"` // nil if it is not known
}

// Totals returns a profile's counts since the scheduler began.
func (s Samples) Totals(profile string) []Total {
	out := make([]Total, len(totals))
	for i, t := range totals {
		out[i].Title = t.title
		if v, known := s.Last(profile, t.name); known {
			out[i].Count = &v
		}
	}
	return out
}

// Reported reports whether the trainer of a profile has said anything.
func (s Samples) Reported(profile string) bool {
	_, known := s.Last(profile, Read)
	return known
}
