// Package online trains a network while a scheduler works with it: the steps of one or more running
// schedulers come in from an experience.Source, and the networks that they learn from go out as
// checkpoints, which the schedulers load.
//
// The Trainer computes rewards, keeps the steps of different actors apart, has every network judged
// by a Guard before a scheduler gets it, and writes the state file from which a trainer after it
// continues. The Learner takes the updates: each method has one (learn/dqn, learn/ppo). What needs
// libtorch carries the build tag torch.
package online
