// Package cem tunes the weights of the linear policy (policy/linear) on episodes of the simulator
// by the cross-entropy method. That takes minutes, and a network must do better than the result to be
// worth its training.
//
// A Tuner does the work. StartWeights finds the weights to start from, HeldOut compares the result
// with the default scoring on episodes that tuning did not see, and Save writes it to a file.
package cem
