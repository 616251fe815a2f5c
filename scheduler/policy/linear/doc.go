// Package linear scores a candidate node by a weighted sum of hand-made features. The weights
// are tuned by the cross-entropy method and kept in JSON files. The program carries four of them.
package linear
