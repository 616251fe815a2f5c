// Package objective defines what a scheduler minimizes: terms that give the state of a cluster a cost, and their weighted mix. The reward
// of a placement is its reduction of the cost. Simulator, evaluation and learning share this package, so policies are trained for the
// measured quantity.
//
// A new term is a type with Name and Cost in the list Terms. If it also has Track, its cost is
// updated in constant time per placement instead of computed from all nodes.
package objective
