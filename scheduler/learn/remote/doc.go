// Package remote trains with the workers of a queue: they play the rollouts of a run, or whole runs.
package remote
