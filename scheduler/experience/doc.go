// Package experience carries a scheduler's states and placements to a learner.
//
// A scheduler that learns while it works makes one Step of each placement and offers it to a
// Sink. A learner takes steps from a Source. Between the two lies a transport. This package has
// one: a Pipe starts a trainer process and writes a stream of steps to its standard input, and the
// trainer reads that stream with a Reader.
//
// Scheduling never waits for learning: a sink without room drops the step, and a Pipe starts a
// trainer again after it ended. The trained network does not come back this way, but through a
// checkpoint file that the scheduler watches. How learning goes comes back as a Report, a line that the
// trainer prints.
package experience
