// Package tabular is the historical baseline of learned scheduling: Q-learning (Watkins 1989) with a
// table instead of a network.
//
// The table has one value for each combination of three binned numbers about a candidate node: its
// CPU fraction and its memory fraction after placement, both relative to the cluster's mean, and the
// size of the pod. Train learns the values in the simulator, and an Agent scores nodes with them. The
// gain of a network over this agent is what its features and its generalisation are worth.
package tabular
