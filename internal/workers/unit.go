package workers

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
)

// Unit is a deterministic task: whoever computes it gets the same bytes.
type Unit struct {
	Kind  string          `json:"kind"` // of the Handler
	Task  json.RawMessage `json:"task"`
	Blobs []string        `json:"blobs,omitempty"` // the data that the task needs, by the names that Queue.Put gave them
	About string          `json:"about"`           // for messages
}

// Limits of what a worker accepts.
const (
	maxUnit  = 512 << 10 // bytes of an encoded unit; the server refuses messages over 1 MiB
	maxBlobs = 10_000    // of a unit
	maxBlob  = 1 << 30   // bytes
)

// Handler computes the result of a task. blob returns the path of the file with the data of a name. An error is the result of the unit,
// too: another try would end in the same way.
type Handler func(ctx context.Context, task []byte, blob func(name string) (string, error)) ([]byte, error)

// encode returns the unit's message and its name, which is a hash of it.
func (u Unit) encode() (data []byte, name string, err error) {
	u.Blobs = slices.Compact(slices.Sorted(slices.Values(u.Blobs))) // equal units have equal names
	if data, err = json.Marshal(u); err != nil {
		return nil, "", err
	}
	if len(data) > maxUnit {
		return nil, "", fmt.Errorf("%s: a unit of %d bytes; the limit is %d", u.About, len(data), maxUnit)
	}
	return data, digest(data)[:32], nil
}

// decode reads the message of a unit with a name.
func decode(data []byte, name string) (u Unit, err error) {
	if err := json.Unmarshal(data, &u); err != nil {
		return u, err
	}
	switch {
	case len(data) > maxUnit || len(u.Blobs) > maxBlobs:
		return u, fmt.Errorf("a unit of %d bytes with %d blobs", len(data), len(u.Blobs))
	case digest(data)[:32] != name:
		return u, fmt.Errorf("a unit with the name of another, %s", name)
	}
	for _, b := range u.Blobs {
		if sum, err := hex.DecodeString(b); err != nil || len(sum) != sha256.Size {
			return u, fmt.Errorf("a blob with the name %q, which is no SHA-256", b)
		}
	}
	return u, nil
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
