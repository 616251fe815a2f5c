// Package tabular is the historical baseline of learned scheduling: Q-learning (Watkins 1989)
// with a table instead of a network. A candidate is known by three binned numbers alone, its
// CPU and memory fraction after placement relative to the cluster's mean and the size of the
// pod, and the table holds one value for each combination. What a network is worth shows in
// what it gains over this.
package tabular
