package report

import (
	"html/template"

	"gnnsched/scheduler/eval"
)

// page holds the data of the template.
type page struct {
	Run
	CSP       string
	Style     template.CSS
	Script    template.JS
	Platform  string // Go version, operating system, architecture, number of CPUs
	Lead      string // the verdict in one sentence
	Seeds     string
	Verdicts  []verdict
	Notes     []string // about the data: missing or thinned parts
	Scenarios []scenario
	Decisions *decisions
	Data      data
}

// verdict is a Verdict with a sign and a word for its state.
type verdict struct {
	Verdict
	Sign, Word string
}

// scenario is the part about one scenario. Parts without data are empty.
type scenario struct {
	Scenario
	ID      string
	Effects []chart // differences by metric
	Changes *table
	Means   *table
	Spread  []chart // distributions of metrics
	Time    []chart // the cluster over time
	Heat    *heat
	Waits   *chart
	Waited  *table
	Others  []table
}

// chart is a figure with its caption.
type chart struct {
	SVG     template.HTML
	Caption string
}

// table is a table with a caption. The first column has row headings.
type table struct {
	Caption string
	Columns []string
	Rows    [][]string
	Numeric []bool // by column: aligned to the right
}

// heat is the heat maps of the contenders of a scenario, which share one slider.
type heat struct {
	ID     string // key in data.Clusters
	Frames int    // steps of the slider
	Maps   []heatMap
	Kinds  []string // the resources: cpu, memory, gpu
	Rows   *table   // the cluster over time in figures
	Notes  []string
	From   string // the times of the first and last frame
	Until  string
	Unit   string
}

// heatMap is the picture of one contender.
type heatMap struct {
	Contender string
	Index     int
	Images    []imageData // by heat.Kinds
	Nodes     int
}

// imageData is a PNG as a data URL.
type imageData struct {
	Kind string
	URL  template.URL
	Alt  string
}

// decisions is the table of decisions that one can search.
type decisions struct {
	ID   string
	Unit string
	All  int // before thinning
	Rows []decided
}

// decided is a decision in a scenario.
type decided struct {
	Scenario string
	eval.Decision
}

// data is the JSON that the script reads.
type data struct {
	Clusters map[string]cluster `json:"clusters"`
}

// cluster holds the frames of a heat.
type cluster struct {
	Unit string   `json:"unit"`
	At   []string `json:"at"` // by step of the slider
	Maps []layers `json:"maps"`
}

// layers are the frames of one contender: a string for each step, with a character for each node.
type layers struct {
	Contender string              `json:"contender"`
	Nodes     []string            `json:"nodes"`
	Waiting   []int               `json:"waiting"`
	Levels    map[string][]string `json:"levels"` // by resource
}
