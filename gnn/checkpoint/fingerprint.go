package checkpoint

import (
	"encoding/binary"
	"hash/fnv"
	"math"
)

// Fingerprint tells the weights of one checkpoint from those of another: a 64-bit FNV-1a hash
// of their bits, in the order of Architecture.Params. The manifest is not in it. The checkpoint
// must be valid.
func (c *Checkpoint) Fingerprint() uint64 {
	h := fnv.New64a()
	var b [4]byte
	for _, p := range c.Manifest.Architecture.Params() {
		for _, v := range c.Weights[p.Name].Data {
			binary.LittleEndian.PutUint32(b[:], math.Float32bits(v))
			_, _ = h.Write(b[:]) // which never fails
		}
	}
	return h.Sum64()
}
