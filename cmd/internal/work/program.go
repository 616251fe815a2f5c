package work

import (
	"time"

	"gnnsched/internal/workers"
)

// Program is a program that gives work away to others of its kind.
type Program struct {
	Usage       string        // of the command work
	Description string        // the same, with examples
	Work        string        // what it gives away, in messages
	Limit       time.Duration // of a unit, by default
	Handlers    func() map[string]workers.Handler
}
