package checkpoint

import (
	"bytes"
	"math"
	"testing"
)

// A fingerprint survives a file, does not depend on the manifest, and changes with the smallest
// change of any weight.
func TestFingerprint(t *testing.T) {
	c := random(GNN)
	want := c.Fingerprint()
	read, err := Read(bytes.NewReader(encode(t, c)))
	if err != nil {
		t.Fatal(err)
	}
	read.Manifest.Commit = "another"
	if got := read.Fingerprint(); got != want {
		t.Errorf("%x after a round trip, %x before", got, want)
	}
	for name, w := range c.Weights {
		was := w.Data[len(w.Data)-1]
		w.Data[len(w.Data)-1] = math.Nextafter32(was, math.MaxFloat32)
		if c.Fingerprint() == want {
			t.Errorf("%s is not in it", name)
		}
		w.Data[len(w.Data)-1] = was
	}
}
