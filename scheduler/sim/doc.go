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
// What happens when. First comes the fill: pods arrive one at a time until the cluster
// carries the load. With a turnover, pods then go on arriving as Config.Arrivals says while
// others leave as Config.Lifetimes says, so that the load stays about where it is. A trace has
// no fill: pods come and go as it says from the start. A pod that fits nowhere waits; whenever
// pods leave, the waiting ones are tried again, the longest waiting first, and before the next
// arrival. Who still waits at the end counts as unscheduled.
//
// Time. Its unit is the mean time between two arriving pods, or the second in a trace. In the
// fill and with steady arrivals it goes by in units: a pod arrives in each, and those whose
// time has come leave just before. With any other process, and in a trace, pods arrive and
// leave at any point of time, also between two arrivals and several at once.
//
// Losing nodes. With Config.Lose, nodes go once after the fill, and their pods wait for
// another one.
//
// Nodes, arrivals, lifetimes and which nodes are lost follow from the seed alone and not from
// what the policy does, so that two policies on one seed are a pair. Nothing else is random:
// the same choices give the same episode.
package sim
