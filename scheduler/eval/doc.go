// Package eval compares policies in a way that can be believed: every policy meets the same
// arrivals on the same clusters (paired seeds), differences come with a bootstrap interval,
// and pods that found no node are reported beside every objective, so that nobody looks good
// by leaving work undone.
//
// Ties between equal scores are broken at random, as kube-scheduler does, for policies that
// give integers; learned policies take the first, as their plugin does.
package eval
