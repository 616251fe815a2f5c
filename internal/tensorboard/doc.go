// Package tensorboard writes what a training run reports into a folder that TensorBoard
// opens: an event file, and the scalars once more as CSV.
//
// An event file is a row of TFRecords, each of them one Event message of TensorFlow's
// event.proto (tensorflow/core/util/event.proto, framework/summary.proto and
// framework/histogram.proto in TensorFlow's repository). Only the few fields that scalars
// and histograms need are written, so their numbers are named here instead of generated.
//
// Everything is in the file as soon as a method returns: a run that is killed loses nothing
// that it reported.
package tensorboard
