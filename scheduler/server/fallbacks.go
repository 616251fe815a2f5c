package server

import (
	"gnnsched/scheduler/plugin"
	"gnnsched/scheduler/plugin/dra"
)

// Fallbacks returns how many decisions of a profile kube-scheduler's default scoring has made since this
// process started, because the profile's own policy failed or was too slow.
func Fallbacks(profile string) (int, error) { return plugin.Fallbacks(profile) }

// ClaimChoices says what became of a profile's choices of devices for claims.
type ClaimChoices = dra.Choices

// ClaimChoicesOf returns the choices of a profile since this process started.
func ClaimChoicesOf(profile string) (ClaimChoices, error) { return dra.ChoicesOf(profile) }
