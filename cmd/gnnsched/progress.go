package main

import (
	"io"
	"os"
	"time"

	"github.com/rs/zerolog"
	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"gnnsched/internal/cli"
	"gnnsched/workload/cleanup"
)

// progressView shows how far a long job is: in place on a terminal, a line now and then
// elsewhere. The lines go to the log file in both cases.
type progressView struct {
	bar   *progressbar.ProgressBar // nil where stderr is no terminal
	width int                      // columns that the text may take beside the bar
	log   zerolog.Logger
	phase string
	next  time.Time
}

const (
	progressParts = 1000            // steps of the bar
	progressEvery = 5 * time.Second // between two lines
)

// onTerminal tells whether progress is drawn in place.
func onTerminal() bool { return cli.IsTerminal(os.Stderr) && os.Getenv("TERM") != "dumb" }

func newProgressView(w io.Writer, terminal bool, log zerolog.Logger) *progressView {
	v := &progressView{log: log}
	if terminal {
		const bar = 10
		columns, _, err := term.GetSize(int(os.Stderr.Fd()))
		if err != nil || columns <= 0 {
			columns = 80
		}
		v.width = max(columns-bar-12, 10) // a line that wraps could not be drawn over
		v.bar = progressbar.NewOptions(progressParts, progressbar.OptionSetWriter(w), progressbar.OptionSetWidth(bar),
			progressbar.OptionSetPredictTime(false), progressbar.OptionSetElapsedTime(false), progressbar.OptionClearOnFinish(), progressbar.OptionUseANSICodes(true))
	}
	return v
}

// show says that the job is done to a fraction of 0 to 1. A change of phase is always worth
// a line.
func (v *progressView) show(done float64, phase, text string) {
	if v.bar != nil {
		v.bar.Describe(truncate(text, v.width))
		// The last part is left for close, because a full bar ends itself.
		_ = v.bar.Set(min(int(done*progressParts), progressParts-1)) // fails only past its end
	}
	if now := time.Now(); phase != v.phase || now.After(v.next) {
		v.phase, v.next = phase, now.Add(progressEvery)
		v.log.Info().Msg(text)
	}
}

// cleanup shows how far a removal is.
func (v *progressView) cleanup(p cleanup.Progress) { v.show(p.Done, p.Phase(), p.String()) }

// close wipes the bar, so that what is printed next stands alone.
func (v *progressView) close() {
	if v.bar != nil {
		_ = v.bar.Finish() // a terminal that is gone has nobody to tell
	}
}

// truncate cuts text to a number of columns.
func truncate(text string, columns int) string {
	if r := []rune(text); len(r) > columns {
		return string(r[:columns-1]) + "…"
	}
	return text
}
