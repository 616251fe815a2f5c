// Package run holds the parts that all methods of reinforcement learning in the simulator share: the trainer's
// loop, the environments that play episodes, the reward, the teacher, the evaluation on held-out
// episodes, the figures that a run reports and the file from which a stopped run continues.
//
// A Trainer alternates between rounds of an Agent, which acts and learns, and evaluations, of
// which it keeps the best network. The methods are packages of their own (learn/dqn, learn/ppo);
// run knows them as a Method, which makes an Agent. Package learn chooses the method of a job.
//
// Trainer and Agent carry the build tag torch, since agents learn with libtorch; the rest is plain
// Go.
package run
