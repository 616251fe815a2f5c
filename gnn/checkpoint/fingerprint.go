package checkpoint

import (
	"encoding/binary"
	"hash/fnv"
	"math"
)

// Fingerprint identifies the weights: it is a 64-bit FNV-1a hash of their bits in the order of
// Architecture.Params. It does not depend on the manifest. The checkpoint must be valid.
func (c *Checkpoint) Fingerprint() uint64 {
	h := fnv.New64a()
	var b [4]byte
	for _, p := range c.Manifest.Architecture.Params() {
		for _, v := range c.Weights[p.Name].Data {
			binary.LittleEndian.PutUint32(b[:], math.Float32bits(v))
			_, _ = h.Write(b[:]) // never fails
		}
	}
	return h.Sum64()
}
