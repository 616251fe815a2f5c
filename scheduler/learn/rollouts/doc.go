// Package rollouts trains a network by policy iteration with rollouts (Dimitrakakis and Lagoudakis 2008,
// Rollout sampling approximate policy iteration).
//
// At a decision, the agent tries several candidates: from each it plays on with the present network, in
// copies of the simulator that meet the same arrivals and departures (eval.Rollout). What the
// candidates cost then differs only by the choice and by its consequences, so one decision tells more
// than thousands of rewards, in which the luck of later arrivals hides what a placement did. The network
// learns the differences as a regression. Since it sees the state and not the future, it learns their
// mean over futures.
//
// It needs copies of the environment, so it works in the simulator alone. A running scheduler is learned
// from by the other methods.
//
// Config holds the hyperparameters. What needs libtorch carries the build tag torch.
package rollouts
