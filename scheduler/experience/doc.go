// Package experience is the way from a scheduler that learns while it works to the process that
// trains: the steps that the scheduler takes, the stream that they go down, and the feed
// that keeps a trainer running at the other end. The way back is a checkpoint file.
//
// Scheduling never waits for the trainer. Steps that it cannot take are dropped, and a
// trainer that ends is started again.
package experience
