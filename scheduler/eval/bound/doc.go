// Package bound estimates how much better a policy could do in the simulator with abilities that no scheduler has: knowledge of the future
// (Lookahead).
//
// It is no proven bound: it improves a policy step by step, and a better search could find more. Its gains are still real, since
// it plays whole episodes. A Lookahead over drawn futures knows only what a scheduler could know, and so shows which part of the first
// gain needs no knowledge of the future.
package bound
