package dra

import (
	"gnnsched/internal/cluster"
	"gnnsched/internal/metric"
)

var set metric.Set

// choices counts the pods with claims that were reserved.
var choices = set.Counters("claim_choices_total",
	"Pods with claims that got a node. choice is taken if they got the devices that the profile's policy chose, "+
		"other if the allocator could not give them, and none if the policy had no opinion.",
	"profile", "choice")

// unconfirmed counts the claims whose allocations are neither known to be written nor known not to be.
var unconfirmed = set.Gauges("claims_unconfirmed",
	"Claims whose allocation could not be written for certain. Their pods and devices wait until the API server says whether it was.",
	"profile")

// conflicts counts the pods whose devices another scheduler gave away at the same time.
var conflicts = set.Counters("claim_conflicts_total",
	"Pods that gave their devices back before they were bound, because another scheduler had given the same devices to a "+
		"claim. They try again.",
	"profile")

// stale counts the pods whose status named a claim that they do not use.
var stale = set.Counters("claim_status_cleared_total",
	"Pods that were bound without a claim and whose status named one of an earlier attempt. The name was removed.", "profile")

// The values of the label choice.
const (
	choiceTaken = "taken"
	choiceOther = "other"
	choiceNone  = "none"
)

// countChoice counts a pod that got some cards, given those that the policy chose.
func countChoice(profile string, chosen, got cluster.DeviceSet) {
	result := choiceTaken
	switch {
	case chosen == 0:
		result = choiceNone
	case chosen != got:
		result = choiceOther
	}
	choices.WithLabelValues(profile, result).Inc()
}
