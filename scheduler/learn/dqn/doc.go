// Package dqn trains a network by deep Q-learning (Mnih et al. 2015): double, dueling, n-step, with
// prioritised experience replay, a target network and the Huber loss.
//
// Config holds the hyperparameters. The learner takes the updates, the agent plays episodes in the
// simulator, and the online learner does the same from the steps of a running scheduler. What needs
// libtorch carries the build tag torch.
package dqn
