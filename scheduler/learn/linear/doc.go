// Package linear fits the weights of linear.Policy to the simulator by the cross-entropy method:
// ten minutes' work, and the floor that a network must clear to be worth having.
package linear
