// Package sim is the cluster without Kubernetes: pods arrive at random nodes as a seed
// decides, a policy picks a node for each, and an objective says how well that went. It runs
// in-process, tens of thousands of decisions a second and more, so that a policy can be
// trained and compared on many clusters.
//
// An episode:
//
//	env, err := sim.New(cfg)
//	err = env.Reset(seed)
//	for !env.Done() {
//		pod, rows := env.Pending(), env.Candidates() // never empty
//		reward := env.Step(choose(env.Snapshot(), pod, rows))
//	}
//	fmt.Println(env.Outcome())
//
// What happens when. Deployments of several replicas arrive one pod at a time until the
// cluster carries the load; with a turnover, pods then go on arriving while others leave, so
// that the load stays where it is. Time is counted in arrivals. A pod that fits nowhere
// waits; whenever pods leave, the waiting ones are tried again, the longest waiting first,
// and before the next arrival. Who still waits at the end counts as unscheduled.
//
// Nodes, arrivals and lifetimes follow from the seed alone and not from what the policy
// does, so that two policies on one seed are a pair. Nothing else is random: the same
// choices give the same episode.
package sim
