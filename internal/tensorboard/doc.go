// Package tensorboard writes the metrics of a training run to an event file for TensorBoard.
//
// An event file is a sequence of TFRecords, each of which holds one Event message. The messages are
// defined in tensorflow/core/util/event.proto and framework/summary.proto of TensorFlow's repository. Scalars need only a few
// fields, so this package encodes these by their numbers and generates no code.
//
// Each method writes its data before it returns, so a killed run loses nothing.
package tensorboard
