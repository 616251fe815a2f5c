// Package flags makes the hyperparameters of package learn the flags of a command: one for each
// field of learn.Config that has a tag flag, under the name and with the usage of its tags.
package flags
