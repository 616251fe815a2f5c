package work

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/time/rate"

	"gnnsched/internal/cli"
	"gnnsched/internal/workers"
)

// The bar says who works, as of five seconds ago at most, and who is slow. A queue that does not answer stops no result.
func TestBarOfWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said strings.Builder
		asked, answer := 0, make(chan error)
		bar := cli.NewBar(nil, false, zerolog.New(&said))
		c := &Pool{
			close: func() {}, note: bar.Note,
			took: map[string]time.Duration{}, played: map[string]int{}, asks: rate.Sometimes{Interval: 5 * time.Second},
			ask: func() (string, error) { asked++; return "2 workers with 8 slots", <-answer },
		}
		shows := func(done float64, want string) {
			t.Helper()
			synctest.Wait()
			said.Reset()
			bar.Show(done, want, "3 of 6")
			if got := said.String(); !strings.Contains(got, `"3 of 6`+want+`"`) {
				t.Errorf("%s, want %q", got, want)
			}
		}
		for range 3 {
			c.Result(workers.Result{Worker: "fast", Took: time.Second})
			c.Waiting()
		}
		shows(0, "")
		answer <- nil
		shows(0, " (2 workers with 8 slots)")
		for range 3 {
			c.Result(workers.Result{Worker: "old", Took: 4 * time.Second})
		}
		shows(0, " (2 workers with 8 slots; old is slow, 4s each)")
		if asked != 1 {
			t.Errorf("asked %d times within five seconds", asked)
		}
		time.Sleep(5 * time.Second) // of the test's clock
		c.Waiting()
		answer <- errors.New("no worker answers")
		shows(0.5, ", about 5 s left (no worker answers; old is slow, 4s each)")
		time.Sleep(5 * time.Second)
		c.Waiting()
		c.Close()
		answer <- nil // too late: the bar is gone
		shows(0.5, ", about 10 s left (no worker answers; old is slow, 4s each)")
	})
}
