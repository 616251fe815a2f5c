// Package architecture holds tests of the module's structure: which folder may import which other
// folder, and further rules that hold for the whole repository. It has no code besides tests.
package architecture
