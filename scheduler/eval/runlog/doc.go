// Package runlog writes evaluations into a run folder, from which `gnnsched report` makes a page: what each
// contender made of each episode, and, of one episode of each scenario, how the cluster looked over time and
// which nodes were chosen.
//
//	log := runlog.New(w, scenarios, contenders)
//	c, err := eval.Compare(ctx, s, log.Watched(s, contenders, seeds), seeds, nil)
//	err = log.Write(c)
package runlog
