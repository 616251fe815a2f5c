// Package flags makes a command's flags of the hyperparameters in package learn. Each field of
// learn.Config with a tag flag becomes one, with the name and the help of its tags.
//
// All, Names and Apply are for training in the simulator, Online and OnlineJob for learning from a
// running scheduler, and Scheduler and Start for the scheduler's own command, which hands some of
// its flags on to the trainer.
package flags
