// Package linear scores a candidate node by a weighted sum of ten hand-made features. The weights
// are tuned by the cross-entropy method and kept in JSON files, of which the program carries
// three.
package linear
