// Package run holds the parts that all methods of reinforcement learning in the simulator share: the loop
// of a run, the environments that play episodes, the reward, the teacher, the evaluation on held-out
// episodes, the figures that a run reports and the file from which a stopped run continues.
//
// A Loop alternates between rounds of a Learner, which acts and learns, and evaluations, of
// which it keeps the best network. A Trainer runs it on the episodes of any cluster, with the agent of a
// Method (learn/dqn, learn/ppo); package learn chooses the method of a job. Package learn/value has a
// trainer of its own for GPU clusters.
//
// Trainer and Agent carry the build tag torch, since agents learn with libtorch; the rest is plain
// Go.
package run
