// Package value trains networks that value a cluster as a sum: those for GPU clusters over the nodes, and those on the graph of kinds over
// kinds of pods.
//
// # GPU clusters
//
// The cost of an episode is the GPUs that are idle at the end, when more were requested than there are. A placement changes one node, so
// the value of a cluster is learned as a sum over them,
//
//	V(cluster) = Σ_n v(node n, cluster)
//
// (value decomposition; Sunehag et al., Value-Decomposition Networks, AAMAS 2018). v(n) is the part of
// the cost that the present policy will cause at node n, given the node, its devices and a few
// features of the whole cluster: its devices that stay idle (recorder.end). Every node in every snapshot of an
// episode gives one target, without the noise of the other nodes: Monte
// Carlo policy evaluation (Sutton and Barto 2018, chapter 5) of a thousand small
// episodes in one. The next policy is the greedy one,
//
//	argmax over candidates of v(before the placement) - v(after it),
//
// with the reserve of encode.Reserve, which package neural adds.
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
// # Kinds of pods
//
// The cost at a moment is the sum of what the waiting pods request. A kind's part is what its own pods request. The target of a kind is
// the logarithm of the mean of its part over a horizon. The policy is neural.New's: a placement costs what the lost places add to the parts
// of all kinds. linear plays the first episodes; later the network does. In every second episode some placements are random, so that
// little room does not always come with much demand.
//
// A Trainer plays and learns in turn (loop.go). Its agent (agent.go) plays episodes of a task (train.go) on workloads of a family, on
// scenarios or on a record, takes snapshots of them (snapshot.go), and learns from the snapshots. Online goes on with a scheduler's steps.
package value
