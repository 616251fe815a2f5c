// Package infer runs a network forward in plain Go: the pass that serves in the scheduler
// and steps the simulator.
//
// With x the features of a vertex, h hidden vectors of width H, and ⊕ written as a sum of
// linear maps (biases left out):
//
//	group     g_s = ReLU(G x_s)
//	node      h_v = ReLU(LayerNorm(N x_v + M · mean_{s on v} g_s))        mean weighted by pods
//	pod       p   = ReLU(P x_p)
//	cluster   c   = ReLU(C x_c + C' · mean_v h_v + C" p)
//	zone      z_k = ReLU(Z · mean_{v in k} h_v + Z' c)
//	candidate k_i = ReLU(A h_v + A' z_{zone(v)} + A" c + B p + E e_i)     e_i: candidate edge
//	score     a_i = s · k_i
//
// A learner may have a value of the state, too, which nothing here reads.
//
// This is message passing with mean aggregation in the manner of GraphSAGE (Hamilton et al.
// 2017) with one weight matrix a relation as in R-GCN (Schlichtkrull et al. 2018): groups to
// nodes, nodes to cluster and zones, and back to the candidates. The MLP encoder is the same
// without the messages: G, M, C', C", Z, Z' and A' are absent.
//
// Only one node changes between two decisions. A Session therefore keeps h_v and A h_v of every
// node and the zones' sums, and computes again only the nodes whose stamp changed. So the cost of a
// decision depends on the change and on the number of candidates, not on the cluster's pods.
//
// A network on the GPU graph values nodes with their GPU devices. With x the features of a node, u those of the cluster, t_d
// the interpolated vector of device d's free part (see graph.Knots), and biases left out:
//
//	device   m_d = ReLU(D x + T t_d)                 H
//	node     h   = ReLU(N x + M · Σ_d m_d)           2H
//	         φ   = O h                               H
//	cluster  ψ   = O' ReLU(C u)                      H
//	value    v   = φ · ψ
//
// The MLP encoder lacks the devices' messages; the linear encoder is v = n · x.
//
// The inner loop, a row of x W, is also written in assembly for amd64 processors with AVX2 and FMA. A test compares the
// two. The build tag purego leaves the assembly out.
package infer
