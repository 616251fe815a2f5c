package eval

import "gnnsched/scheduler/policy/heuristic"

// Forms are the forms of names that only an evaluation has, besides those of heuristic.Forms.
var Forms = []heuristic.Form{
	{Name: "NETWORK:OBJECTIVE", About: "a shipped network of many objectives that serves this one, such as wishes:balance=0.5+energy=1.25"},
	{Name: "stock:FILE", About: "kube-scheduler's score plugins, as a KubeSchedulerConfiguration configures them"},
	{Name: "first-fit:POLICY", About: "POLICY chooses the node, and a pod gets the node's first devices with room, as from upstream's allocator of claims"},
	{Name: "running:POLICY", About: "POLICY, with typical pods counted by the time for which they run, for eval openb --steady"},
	{Name: "leaving:NETWORK", About: "running:NETWORK with a reserve that keeps twice as much, as a profile with --pods-leave"},
	{Name: "by-load:NETWORK", About: "leaving:NETWORK under an offered load of 100 % of the GPUs, else running:NETWORK; no profile has it"},
	{Name: "clairvoyant:POLICY", About: "a bound: rollouts of POLICY that know the arrivals and departures to come"},
	{Name: "expecting:POLICY", About: "the same with drawn futures, for steady arrivals and exponential lifetimes"},
	{Name: "moved:POLICY", About: "a bound: places as POLICY, and reports the objective after running pods moved, one move or swap at a time"},
}
