// Package objective says what a scheduler is to keep low: terms that give the state of a
// cluster a cost, and their weighted mix. The reward of a placement is how much it lowers
// the cost. Simulator, evaluation and learning share it, so what is trained for is what is
// measured.
//
// A term of one's own is a type with Name and Cost, put into a Mix. One that also has Track
// is evaluated in constant time a placement instead of once over all nodes.
package objective
