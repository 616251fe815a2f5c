package cli

import (
	"fmt"
	"math"
	"time"
)

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
