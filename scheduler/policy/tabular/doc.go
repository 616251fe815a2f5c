// Package tabular scores nodes with a table of values, the historical baseline of learned scheduling.
//
// The table has one value for each combination of three binned numbers about a candidate node: its
// CPU fraction and its memory fraction after placement, both relative to the cluster's mean, and the
// size of the pod. Package learn/tabular learns the values, and an Agent scores nodes with them.
package tabular
