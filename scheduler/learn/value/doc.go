// Package value learns to place pods on GPU clusters: what a cluster will lose, as a sum
// over its nodes.
//
// Packing GPUs has no reward but at the end: what is idle on each node when no more pod fits.
// That is a sum over nodes, and a placement changes one of them. So the value of a cluster is
// learned as a sum too,
//
//	V(cluster) = Σ_n v(node n, cluster)
//
// (value decomposition; Sunehag et al., Value-Decomposition Networks, AAMAS 2018), where v is
// what will be idle on the node at the end under the present policy, given the node, its devices
// and a few features of the whole cluster. Every node of every snapshot of an episode gives one
// target, with nobody else's luck in it: Monte Carlo policy evaluation (Sutton and Barto 2018,
// chapter 5) of a thousand small episodes in one. The next policy is the greedy one,
//
//	argmax over candidates of v(before the placement) - v(after it)
//
// and so on in turns: generalised policy iteration on afterstates (the same, section 6.8). The
// first episodes are those of FGD, from whose value the first policy improves.
//
// With the head actor-critic the policy is a network of its own, of the same shape. It clones
// FGD first and is then trained on the critic's values of all candidates at once, not only of the
// one taken (Allen et al., Mean Actor Critic, 2017), with an entropy bonus: both together are
// the divergence of the policy from the Boltzmann distribution of the values.
//
// Workloads are drawn from a family, the pods of traces with their kinds reweighted and their
// numbers drawn anew, so that the network meets none of the traces themselves.
package value
