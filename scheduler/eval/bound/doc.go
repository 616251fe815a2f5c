// Package bound says how much better a policy could do in the simulator if it had what no scheduler has:
// knowledge of the future (Lookahead), or pods that can be moved at any time (Moved).
//
// Neither is a bound that is proven: both improve a policy step by step, and a better search could find
// more. What they find is real all the same, since they play whole episodes. A Lookahead over drawn futures knows only what a
// scheduler could, and says how much of the first can be won without that knowledge.
package bound
