package cli

import (
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"github.com/schollz/progressbar/v3"
)

// Bar is the progress of one command. It also writes log lines while it is drawn, for the log
// file.
type Bar struct {
	mu    sync.Mutex
	bar   *progressbar.ProgressBar // nil if nothing is drawn
	width int                      // columns for the text beside the bar
	log   zerolog.Logger
	phase string
	next  time.Time // of the next line in the same phase
	left  TimeLeft
	text  string // of the last Show
	note  string
}

const (
	steps = 1000            // of the bar
	pause = 5 * time.Second // between two lines of the same phase
)

// OnTerminal tells whether standard error is a terminal on which a bar can be drawn.
func OnTerminal() bool { return IsTerminal(os.Stderr) && os.Getenv("TERM") != "dumb" }

// NewBar returns a bar that is drawn on w if terminal is true.
func NewBar(w io.Writer, terminal bool, log zerolog.Logger) *Bar {
	b := &Bar{log: log}
	if terminal {
		const width = 10
		b.width = max(Columns(os.Stderr)-width-12, 10) // a line that wraps could not be drawn over
		b.bar = progressbar.NewOptions(steps, progressbar.OptionSetWriter(w), progressbar.OptionSetWidth(width),
			progressbar.OptionSetPredictTime(false), progressbar.OptionSetElapsedTime(false), progressbar.OptionClearOnFinish(),
			progressbar.OptionUseANSICodes(true))
	}
	return b
}

// StderrBar returns a bar for a command without a log file, on its standard error w: lines where no bar is drawn.
func StderrBar(w io.Writer) *Bar {
	if OnTerminal() {
		return NewBar(w, true, zerolog.Nop())
	}
	return NewBar(w, false, zerolog.New(zerolog.ConsoleWriter{Out: w, NoColor: true, PartsExclude: []string{zerolog.TimestampFieldName}}))
}

// Show reports which fraction of the job is done, from 0 to 1, and the remaining time. It logs the text if the phase is a new one or the
// last line is old.
func (b *Bar) Show(done float64, phase, text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.text = text + b.left.After(done)
	text = b.describe()
	if b.bar != nil {
		// The last step is left to Close, because a full bar ends itself.
		_ = b.bar.Set(min(int(done*steps), steps-1)) // fails only past its end
	}
	if now := time.Now(); phase != b.phase || now.After(b.next) {
		b.phase, b.next = phase, now.Add(pause)
		b.log.Info().Msg(text)
	}
}

// Note adds a remark to what Show shows, and logs it.
func (b *Bar) Note(text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.note = text; text != "" {
		b.log.Info().Msg(text)
	}
	b.describe()
}

// describe draws the text with the note beside the bar, and returns both.
func (b *Bar) describe() string {
	text := b.text
	if b.note != "" {
		text = strings.TrimSpace(text + " (" + b.note + ")")
	}
	if b.bar != nil {
		b.bar.Describe(truncate(text, b.width))
	}
	return text
}

// Episodes returns what reports the episodes of one of several parts of the job.
func (b *Bar) Episodes(part, parts int, name string) func(done, total int) {
	return func(done, total int) {
		b.Show((float64(part)+float64(done)/float64(total))/float64(parts), name, fmt.Sprintf("%s: %d of %d episodes", name, done, total))
	}
}

// Close wipes the bar off the terminal.
func (b *Bar) Close() {
	if b.bar != nil {
		_ = b.bar.Finish() // fails only if the terminal is gone
	}
}

// truncate cuts text to a number of columns.
func truncate(text string, columns int) string {
	if r := []rune(text); len(r) > columns {
		return string(r[:columns-1]) + "…"
	}
	return text
}

// TimeLeft estimates the remaining time of a job from its elapsed time. It counts from the first call of After, and is not safe for
// concurrent use. The zero value is ready.
type TimeLeft struct {
	now   func() time.Time // nil: time.Now
	begin time.Time
	first float64 // done at the beginning
}

// Below these limits there is no estimate, because it would mislead.
const (
	leastDone = 0.02
	leastTime = 3 * time.Second
)

// After returns the time that is left when a share of the job is done, such as ", about 3 min left"; empty if it is not known yet.
func (l *TimeLeft) After(done float64) string {
	now := time.Now
	if l.now != nil {
		now = l.now
	}
	at := now()
	if l.begin.IsZero() {
		l.begin, l.first = at, done
	}
	took, share := at.Sub(l.begin), done-l.first
	if share < leastDone || took < leastTime || done >= 1 {
		return ""
	}
	return ", about " + rough(time.Duration(float64(took)*(1-done)/share)) + " left"
}

// rough writes a duration in one unit.
func rough(d time.Duration) string {
	switch {
	case d < 90*time.Second:
		return fmt.Sprintf("%.0f s", math.Ceil(d.Seconds()))
	case d < 90*time.Minute:
		return fmt.Sprintf("%.0f min", d.Minutes())
	}
	return fmt.Sprintf("%.1f h", d.Hours())
}
