package overcommit

import "gnnsched/internal/metric"

var set metric.Set

// conflicts counts the pods that gave way.
var conflicts = set.Counters("node_conflicts_total",
	"Pods that were not bound to their node, because another scheduler had taken its room at the same time. They try again.", "profile")

// overcommits counts pods that did not.
var overcommits = set.Counter("node_overcommits_total",
	"Pods, of any scheduler, that were bound to a node whose pods then requested more than it has.")
