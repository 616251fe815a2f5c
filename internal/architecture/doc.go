// Package architecture holds the rules of which folder may import which, as a test: the
// rooms of the house and the doors between them.
package architecture
