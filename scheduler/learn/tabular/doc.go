// Package tabular learns the table of package policy/tabular in the simulator by Q-learning (Watkins
// 1989), the historical baseline of learned scheduling. The gain of a network over its agent is what
// the network's features and its generalisation are worth.
package tabular
