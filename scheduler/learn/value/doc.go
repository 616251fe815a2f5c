// Package value trains networks for GPU clusters: they learn the GPUs that a cluster will leave idle,
// as a sum over its nodes.
//
// A scheduler that packs GPUs has a reward only at the end: the GPUs that are idle on each node once
// no more pod fits. This is a sum over nodes, and a placement changes one of them. So the value of a
// cluster is learned as a sum too,
//
//	V(cluster) = Σ_n v(node n, cluster)
//
// (value decomposition; Sunehag et al., Value-Decomposition Networks, AAMAS 2018). v(n) is the number
// of devices that will be idle on node n at the end under the present policy, given the node, its
// devices and a few features of the whole cluster. Every node in every snapshot of an episode gives
// one target, without the noise of the other nodes: Monte Carlo policy evaluation (Sutton and Barto
// 2018, chapter 5) of a thousand small episodes in one. The next policy is the greedy one,
//
//	argmax over candidates of v(before the placement) - v(after it).
//
// Evaluation and improvement take turns: generalised policy iteration on afterstates (the same,
// section 6.8). FGD plays the first episodes, so the first policy improves on FGD.
//
// With the head actor-critic, the policy is a network of its own with the same shape. It clones FGD
// first. Then it is trained on the critic's values of all candidates at once, not only of the chosen
// one (Allen et al., Mean Actor Critic, 2017), with an entropy bonus. Both together are the
// divergence of the policy from the Boltzmann distribution of the values.
//
// Workloads are drawn from a family: the pods of traces, with their kinds reweighted and their numbers
// drawn anew. The network never sees the traces themselves.
//
// A Trainer runs it all. It plays episodes and records snapshots of them (snapshot.go), on workloads of
// a family (family.go), and learns from the snapshots (learner.go).
package value
