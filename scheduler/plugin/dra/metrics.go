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

// Choices are numbers of pods with claims that were reserved: pods that got the devices that the policy chose, others, and those about
// which the policy had no opinion.
type Choices struct {
	Taken int `json:"taken"`
	Other int `json:"other"`
	None  int `json:"none"`
}

// ChoicesOf returns the choices of a profile since this process started.
func ChoicesOf(profile string) (c Choices, err error) {
	for choice, n := range map[string]*int{choiceTaken: &c.Taken, choiceOther: &c.Other, choiceNone: &c.None} {
		if *n, err = metric.Value(choices.WithLabelValues(profile, choice)); err != nil {
			return c, err
		}
	}
	return c, nil
}

// Plus returns the sums of c and other.
func (c Choices) Plus(other Choices) Choices {
	return Choices{c.Taken + other.Taken, c.Other + other.Other, c.None + other.None}
}

// Since returns the choices of c that were made after those of before.
func (c Choices) Since(before Choices) Choices {
	return Choices{c.Taken - before.Taken, c.Other - before.Other, c.None - before.None}
}

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
