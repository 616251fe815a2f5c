package report

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	ucli "github.com/urfave/cli/v2"

	"gnnsched/internal/exit"
	"gnnsched/internal/files"
	"gnnsched/scheduler/eval"
)

// Run holds the data of a page.
type Run struct {
	Title     string // one line for people
	Command   string // that makes the page again, quoted for a shell
	Version   string // of the program and of Kubernetes
	Started   time.Time
	Ended     time.Time
	Seeds     []uint64
	Settings  map[string]string // the flags that were set, by name
	Notes     []string          // what readers must know about the data
	Verdicts  []Verdict         // the most important first
	Scenarios []Scenario
}

// Scenario is the setting in which contenders were compared, simulated or recorded, and what was found.
type Scenario struct {
	Name        string
	About       string
	Objective   string
	Baseline    string   // of the differences
	Rule        string   // how differences are marked, for people
	Metrics     []Metric // in the order in which they are shown, the objective first
	Episodes    []Episode
	Differences []Difference
	Tables      []Table
	Observed    eval.Observed
}

// Metric describes the values of a name in Episode and Difference. Less is better.
type Metric struct {
	Name   string
	Title  string
	Digits int // after the point
}

// State is a verdict in a word.
type State string

// The states of verdicts.
const (
	Better State = "better" // significantly so
	Worse  State = "worse"
	Level  State = "level" // no difference that is more than chance, or none at all
	// Unclear: the interval excludes 0 but p is not low enough, or the contrary.
	Unclear State = "unclear"
	Pass    State = "pass" // a threshold that holds
	Fail    State = "fail"
	Note    State = "note" // a statement without judgement
)

// StateOf returns the state of a verdict on a difference; Note for one without a mark.
func StateOf(m eval.Mark) State {
	return map[eval.Mark]State{
		eval.Unmarked: Note, eval.None: Level, eval.Unclear: Unclear, eval.Lower: Better, eval.Higher: Worse,
	}[m]
}

// Verdict is a sentence about a contender.
type Verdict struct {
	Scenario string
	State    State
	Text     string // a sentence without a full stop
}

// Episode holds the metrics of one contender in one episode, by Metric.Name.
type Episode struct {
	Contender string
	Values    map[string]float64
}

// Difference is the mean of a contender's metric minus the baseline's on the same episodes.
type Difference struct {
	Contender string
	Metric    string
	Mean      float64
	Low       *float64 // ends of the 95 % interval
	High      *float64
	Relative  *float64 // Mean divided by the baseline's mean
	P         *float64 // adjusted for the comparisons that were made; nil if there are too few samples for a mark
	Mark      State    // Better, Worse, Level or Unclear; empty if there are too few samples
}

// Table is anything else that the page shows as a table.
type Table struct {
	Title   string
	Columns []string
	Rows    [][]string
}

// Flag is the flag that asks for a page.
func Flag() ucli.Flag {
	return &ucli.StringFlag{Name: "html", Usage: "write a page to `FILE`: verdict, differences with intervals, the cluster over time, waits, " +
		"decisions; json then holds what was seen of the cluster, too"}
}

// Begin begins the run of a command, in which flags other than those in without were set.
func Begin(c *ucli.Context, title string, seeds []uint64, without string) (Run, error) {
	r := Run{
		Title: title, Version: c.App.Version, Started: time.Now().UTC(), Seeds: seeds, Settings: map[string]string{},
	}
	command, skip := []string{"gnnsched", c.Command.Name}, map[string]bool{}
	for _, name := range strings.Fields(without) {
		skip[name] = true
	}
	for _, f := range c.Command.Flags {
		for _, alias := range f.Names()[1:] {
			skip[alias] = true
		}
	}
	for _, name := range c.LocalFlagNames() {
		if skip[name] {
			continue
		}
		value := setting(c.Value(name))
		if r.Settings[name] = value; value == "true" {
			command = append(command, "--"+name)
		} else {
			command = append(command, "--"+name+"="+value)
		}
	}
	r.Command = exit.ShellLine(append(command, c.Args().Slice()...)...)
	to := c.String("html")
	if !c.IsSet("html") {
		return r, nil
	}
	if info, err := os.Stat(filepath.Dir(to)); to == "" || err != nil || !info.IsDir() {
		return r, exit.New(exit.Usage, fmt.Errorf("--html %q: its folder is not there", to), "name a file in a folder that you can write to")
	}
	return r, nil
}

// setting writes the value of a flag as one gives it.
func setting(v any) string {
	switch v := v.(type) {
	case ucli.StringSlice:
		return strings.Join(v.Value(), ",")
	case ucli.Timestamp:
		return v.Value().UTC().Format(time.RFC3339)
	}
	return fmt.Sprint(v)
}

// Write writes the page to the file of --html, if there is one. failed is why the run ended before its time.
func (r Run) Write(c *ucli.Context, failed error) error {
	to := c.String("html")
	if to == "" {
		return nil
	}
	if r.Ended = time.Now().UTC(); failed != nil {
		r.Notes = append(r.Notes, "The run is incomplete: it ended before its time: "+failed.Error())
	}
	text, err := render(r)
	if err == nil {
		err = files.Write(to, text, 0o644)
	}
	if err != nil {
		return exit.New(exit.Internal, errors.Join(errors.New("write the page of --html"), err), "choose a file that you can write to")
	}
	fmt.Fprintf(c.App.ErrWriter, "wrote %s, %s kB; open it in a browser\n", to, number(float64(len(text))/1000, 0))
	return nil
}
