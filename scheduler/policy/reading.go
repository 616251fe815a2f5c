package policy

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"gnnsched/internal/cluster"
)

// ReadingKind says how a policy made a score of a Reading.
type ReadingKind string

// The kinds of readings.
const (
	// LinearReading has one number for each of linear.Features, and Weights. The score is their dot product.
	LinearReading ReadingKind = "linear"
	// NetworkReading has what infer.Network.ScoreOf reads.
	NetworkReading ReadingKind = "network"
	// ValueReading has a node's value, which is a cost, before and after the placement. The score is the first minus
	// the second. What infer.Network.AttributeStep reads may follow.
	ValueReading ReadingKind = "value"
)

// Reading holds the inputs that a policy read of one candidate: enough to compute the candidate's score again.
type Reading struct {
	Kind     ReadingKind `json:"kind"`
	Features Numbers     `json:"features"`          // finite
	Weights  Numbers     `json:"weights,omitempty"` // of a LinearReading
	KeptFor  []KeptFor   `json:"keptFor,omitempty"` // kinds of pods that the node is kept for, those that the placement costs most first
}

// KeptFor says what a placement on a node takes from a kind of pods that arrive.
type KeptFor struct {
	Kind  string  `json:"kind"`  // as cluster.Kind.Text
	Share float64 `json:"share"` // of the pods that arrive
	Room  float64 `json:"room"`  // how many more of them fit in the whole cluster
	Takes float64 `json:"takes"` // how many fewer fit after the placement
}

// Numbers is a vector. Its JSON form is the base64 of the numbers as little-endian float32.
type Numbers []float32

// MarshalJSON implements json.Marshaler.
func (n Numbers) MarshalJSON() ([]byte, error) {
	b := make([]byte, 0, 4*len(n))
	for _, x := range n {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
	}
	return append(base64.StdEncoding.AppendEncode([]byte{'"'}, b), '"'), nil
}

// UnmarshalJSON implements json.Unmarshaler. It fails for numbers that are not finite.
func (n *Numbers) UnmarshalJSON(text []byte) error {
	var b []byte
	if err := json.Unmarshal(text, &b); err != nil {
		return err
	}
	if len(b)%4 != 0 {
		return fmt.Errorf("%d bytes are no vector of float32", len(b))
	}
	*n = make(Numbers, len(b)/4)
	for i := range *n {
		x := math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
		if math.IsNaN(float64(x)) || math.IsInf(float64(x), 0) {
			return errors.New("a number is not finite")
		}
		(*n)[i] = x
	}
	return nil
}

// Reader is a policy that can tell what it read.
type Reader interface {
	Policy
	// Reading returns what the last Score read of the node in row candidates[i]; nil if it does not know. The
	// arguments are those of that Score. Nobody else holds the result.
	Reading(s *cluster.Snapshot, pod *cluster.Pod, candidates []int32, i int) *Reading
}
