// Package runlog writes evaluations into a run folder, from which `gnnsched report` makes a page: the outcome of each contender and
// episode, and, for one episode of each scenario, frames of the cluster over time and the chosen nodes.
//
//	log := runlog.New(w, scenarios, contenders)
//	c, err := eval.Compare(ctx, s, log.Watched(s, contenders, seeds), seeds, nil)
//	err = log.Write(c)
package runlog
