//go:build !torch

// Command gnntrain trains a network in the simulator; see main.go. Without the build tag
// torch it only says how to build it.
package main

import (
	"fmt"
	"os"

	"gnnsched/internal/exit"
)

func main() {
	fmt.Fprintln(os.Stderr, "gnntrain: error: this binary was built without libtorch\ngnntrain: hint: build it with `make trainer`")
	os.Exit(exit.Usage)
}
