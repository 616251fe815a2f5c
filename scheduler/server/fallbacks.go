package server

import "gnnsched/scheduler/plugin"

// Fallbacks returns how many decisions of a profile kube-scheduler's default scoring has made since this
// process started, because the profile's own policy failed or was too slow.
func Fallbacks(profile string) (int, error) { return plugin.Fallbacks(profile) }
