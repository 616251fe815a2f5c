// Package shadow is the command line of watching another scheduler: the flags of `rungnn --shadow` and its run, and the
// command `gnnsched shadow`, which reads the reports and prints the rights.
package shadow
