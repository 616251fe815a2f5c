// Package record keeps the decisions of a scheduler: the last ones in memory, and all of them on disk if
// a file is named. A Book is the decision.Listener that does so. Record is the form in which they are
// served and written, one JSON object a line.
//
// The creators of pods choose the names and many of the reasons in a record. All texts are bounded, and free of control characters.
package record
