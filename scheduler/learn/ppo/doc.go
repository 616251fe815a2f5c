// Package ppo trains an actor-critic network by proximal policy optimisation (Schulman et al. 2017),
// after behaviour cloning of a teacher and a warm-up of the critic.
//
// Config holds the hyperparameters. The learner takes the updates from a rollout, the agent plays
// rollouts in several of the simulator's clusters at once, and the online learner collects them from the steps
// of running schedulers. What needs libtorch carries the build tag torch.
package ppo
