package checkpoint

import (
	"bytes"
	"embed"
	"fmt"
	"io/fs"
	"strings"
)

//go:embed shipped
var shipped embed.FS

// Shipped returns the trained checkpoint of the given name that is part of this program. The error
// wraps fs.ErrNotExist if there is none.
func Shipped(variant string) (*Checkpoint, error) {
	b, err := fs.ReadFile(shipped, "shipped/"+variant+extension)
	if err != nil {
		return nil, fmt.Errorf("no checkpoint is shipped for %q (shipped: %s): %w", variant, strings.Join(ShippedNames(), ", "), err)
	}
	return Read(bytes.NewReader(b))
}

// ShippedNames lists the names that Shipped knows, sorted.
func ShippedNames() []string {
	entries, err := fs.ReadDir(shipped, "shipped")
	if err != nil {
		panic(err) // the directory is part of the program
	}
	var names []string
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), extension); ok {
			names = append(names, name)
		}
	}
	return names
}

// ShippedFor lists the names of the shipped checkpoints that read the given kind of graph.
func ShippedFor(g Graph) (names []string) {
	for _, n := range ShippedNames() {
		c, err := Shipped(n)
		if err != nil {
			panic(fmt.Errorf("shipped checkpoint %s: %w", n, err)) // it is part of the program
		}
		if c.Manifest.Architecture.Graph == g {
			names = append(names, n)
		}
	}
	return names
}
