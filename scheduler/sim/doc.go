// Package sim simulates a cluster without Kubernetes: pods arrive at random nodes, a policy places
// each pod, and an objective rewards the placement. It runs in-process, at tens of thousands of
// decisions a second and more, to train and compare policies on many clusters.
//
// A program plays an episode like this:
//
//	env, err := sim.New(cfg)
//	err = env.Reset(seed)
//	for !env.Done() {
//		pod, rows := env.Pending(), env.Candidates() // rows is never empty
//		reward := env.Step(choose(env.Snapshot(), pod, rows))
//	}
//	fmt.Println(env.Outcome())
//
// # Phases
//
// An episode begins with the fill: pods arrive one at a time until the cluster carries the load.
// With Config.Turnover, pods then continue to arrive as Config.Arrivals describes, while others
// leave as Config.Lifetimes describes, so the load stays about constant. A trace has no fill: its
// pods come and go at the trace's times.
//
// A pod that fits nowhere waits. Whenever pods leave, and before the next arrival, the waiting pods
// are tried again, the longest waiting first; with OpenB.Steady in kube-scheduler's order. Pods that still wait at the end count as
// unscheduled.
//
// # Time
//
// The unit of time is the mean time between two arrivals, or the second in a trace. In the fill and
// with steady arrivals time passes in whole units: one pod arrives in each, and the pods whose time
// has come leave just before. With any other process, and in a trace, pods arrive and leave at any
// time, several at once too.
//
// # Preferences
//
// All pods of a generated deployment have the same owner, and prefer to be spread over nodes and
// zones as by upstream's default constraints. A pod also prefers nodes without a PreferNoSchedule
// taint that it does not tolerate. PreferencesBy has upstream's scores of the candidates, and Preferred
// the candidates that an agent may choose if all preferences come first. Config.Preferences switches
// them off.
//
// # Lost nodes
//
// With Config.Lose the cluster loses nodes once, after the fill. Their pods wait for other nodes.
//
// # Usage
//
// With Config.Usage the pods use what their models say, from the end of the fill on, and package meter measures
// it. Terms of the objective about measured usage change only by measurements. StepOn's reward includes
// those until the next decision; Cost, and so clairvoyant policies, which go by the cost at later decisions, see
// them as they come.
//
// # Traffic
//
// With Config.Traffic pods of some services exchange data with those of others. Snapshot.Peers has what the pending pod
// exchanges with the running pods of each node, Snapshot.Beyond the running pods two steps away in the matrix, and
// cluster.Node.Traffic what all running pods exchange. Waiting pods exchange nothing.
//
// # Seeds
//
// The seed alone determines nodes, arrivals, lifetimes and lost nodes; the policy has no influence
// on them. Two policies on the same seed can therefore be compared in pairs. Nothing else is
// random: the same choices give the same episode.
package sim
