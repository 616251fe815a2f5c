package experience

import (
	"encoding/json"
	"math"
	"strings"
)

// Report is the progress of a trainer. A trainer sends it to the scheduler that started it, as a line on its standard output or standard
// error, so that no port is needed. The counts belong to the trainer's process.
type Report struct {
	Read    uint64 `json:"read"`    // steps that the trainer got
	Missing uint64 `json:"missing"` // steps that are missing between these
	Stale   uint64 `json:"stale"`   // steps that were not learned from because another network made them
	Updates uint64 `json:"updates"`
	Passed  uint64 `json:"passed"`  // networks that the guard let pass
	Refused uint64 `json:"refused"` // networks that it refused

	// Figures are the figures of learning by name, such as loss, most of them means since the previous report. Unknown figures are missing.
	Figures map[string]float64 `json:"figures,omitempty"`
}

// reportPrefix begins the line of a report. Every other line that a trainer prints is for the log.
const reportPrefix = "gnnsched-trainer-report "

// maxFigures and longestFigure bound a report, because each figure becomes a metric of the scheduler.
const (
	maxFigures    = 32
	longestFigure = 40
)

// Line returns the report as a line without its end. It leaves out figures that are not finite.
func (r Report) Line() string {
	r.Figures = usable(r.Figures)
	text, err := json.Marshal(r)
	if err != nil {
		panic(err) // it holds finite numbers only
	}
	return reportPrefix + string(text)
}

// parseReport returns the report that a line holds, and whether it holds one.
func parseReport(line string) (r Report, ok bool) {
	text, ok := strings.CutPrefix(line, reportPrefix)
	if !ok || json.Unmarshal([]byte(text), &r) != nil || len(r.Figures) > maxFigures {
		return Report{}, false
	}
	r.Figures = usable(r.Figures)
	return r, true
}

// usable returns the figures that are finite and have a name of small letters and underscores.
func usable(figures map[string]float64) map[string]float64 {
	out := make(map[string]float64, len(figures))
	for name, v := range figures {
		letters := strings.Trim(name, "abcdefghijklmnopqrstuvwxyz_") == ""
		if !letters || name == "" || len(name) > longestFigure || math.IsNaN(v) || math.IsInf(v, 0) {
			continue
		}
		out[name] = v
	}
	return out
}
