// Package workers computes units of work in other processes, on this machine or on others.
//
// A queue of NATS JetStream has the units, the data that they need, and their results. It never holds the only copy of anything that cannot
// be computed again: a lost message costs time, never a result. The server may be in this process (Serve), or be any other (Connect).
//
// A worker computes each unit in a child process, over a pipe: a unit that crashes, hangs or eats all memory costs the child alone.
package workers
