// Package cem tunes policies with a few parameters on episodes of the simulator by the cross-entropy method. That
// takes minutes, and a network must do better than the result to be worth its training.
//
// A Tuner tunes the weights of the linear policy (policy/linear). StartWeights finds the weights to start
// from, HeldOut compares the result with the default scoring on episodes that tuning did not see, and Save
// writes it to a file. A StockTuner tunes the score plugins of kube-scheduler (policy/stock); Judge compares
// the result.
package cem
