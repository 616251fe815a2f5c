// Package vector steps many environments of one scenario at the same time, for learners outside of this program.
//
// A step takes one action for each environment. It validates all actions first, then steps the environments on several
// processors, and writes what came of it into arrays of the caller:
//
//	v, err := vector.New(scenario.Config, vector.Options{Count: 64, Layout: feature.Default()})
//	err = v.Reset(vector.Start{Seeds: seeds}, arrays)
//	err = v.Step(actions, arrays)
//
// An action is the index of one of the environment's candidates. The rows of the environments follow one another (ragged),
// or each environment has the same number of rows (padded: Arrays.Slots). Package encode writes the features of candidates
// straight into the caller's arrays. A graph is copied there, because its encoder keeps it from one decision to the next.
package vector
