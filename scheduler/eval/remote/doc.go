// Package remote plays the episodes of comparisons on the workers of a queue.
package remote
