//go:build !cgo

package main

import (
	"fmt"
	"os"

	"gnnsched/internal/exit"
)

// main is there so that the package builds without cgo, as all others do.
func main() {
	fmt.Fprintln(os.Stderr, "gnnsched-env is a C library: build it with make python")
	os.Exit(exit.Usage)
}
