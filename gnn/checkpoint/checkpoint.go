// Package checkpoint reads and writes trained networks: the weights, and a manifest with the
// network's architecture and how it was trained. Some trained networks are part of the program; see
// Shipped.
//
// A file has the safetensors layout (https://huggingface.co/docs/safetensors): 8 bytes of header
// length (little endian), the header as JSON, and the tensors' data. The manifest is the entry
// "gnnsched" of the header's __metadata__, so any safetensors reader can open our files.
package checkpoint

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"syscall"

	"gnnsched/internal/files"
)

// Manifest describes the weights. Schema and Architecture decide whether this program can run them;
// the other fields are for people.
type Manifest struct {
	Schema       string             `json:"schema"` // Architecture.Schema in the program that trained
	Architecture Architecture       `json:"architecture"`
	Objective    string             `json:"objective"` // e.g. "balance"
	Seed         uint64             `json:"seed"`
	Commit       string             `json:"commit"`   // of the program that trained
	Config       json.RawMessage    `json:"config"`   // the training configuration
	Training     map[string]float64 `json:"training"` // figures of the training run: steps, seconds, …

}

// Tensor is a dense float32 array, row-major.
type Tensor struct {
	Shape []int
	Data  []float32
}

// Checkpoint is weights, by the names of Architecture.Params, with their manifest.
type Checkpoint struct {
	Manifest Manifest
	Weights  map[string]Tensor
}

// ErrSchema means that the network was made for another graph: it reads other features, or has other
// parameters than its architecture says.
var ErrSchema = errors.New("made for another graph")

// ErrFile means that a path names a directory, a pipe, a device or a socket.
var ErrFile = errors.New("not a regular file")

// The other errors of Read.
var (
	errFormat = errors.New("not a checkpoint")       // truncated or malformed
	errNaN    = errors.New("weights are not finite") // NaN or infinity among them
)

const (
	manifestKey = "gnnsched"
	maxHeader   = 1 << 20 // bytes
	maxFile     = 1 << 28 // bytes
)

// entry is a tensor in the header.
type entry struct {
	DType   string `json:"dtype"`
	Shape   []int  `json:"shape"`
	Offsets [2]int `json:"data_offsets"`
}

// Validate checks that the architecture is valid, that the weights are exactly those of
// Architecture.Params, and that they are finite. The error wraps ErrSchema unless a weight is not
// finite.
func (c *Checkpoint) Validate() error {
	if err := c.Manifest.Architecture.Validate(); err != nil {
		return fmt.Errorf("%w: %w", ErrSchema, err)
	}
	if want := c.Manifest.Architecture.Schema(); c.Manifest.Schema != want {
		return fmt.Errorf("%w: its feature schema is %q, this program's is %q", ErrSchema, c.Manifest.Schema, want)
	}
	params := c.Manifest.Architecture.Params()
	for _, p := range params {
		t, ok := c.Weights[p.Name]
		if !ok {
			return fmt.Errorf("%w: tensor %s is missing", ErrSchema, p.Name)
		}
		if !slices.Equal(t.Shape, p.Shape) {
			return fmt.Errorf("%w: tensor %s has shape %v, want %v", ErrSchema, p.Name, t.Shape, p.Shape)
		}
		for i, v := range t.Data {
			if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
				return fmt.Errorf("%w: %s[%d] is %v", errNaN, p.Name, i, v)
			}
		}
	}
	if len(c.Weights) != len(params) {
		return fmt.Errorf("%w: %d tensors, want %d", ErrSchema, len(c.Weights), len(params))
	}
	return nil
}

// Write writes a valid checkpoint. The same content gives the same bytes.
func (c *Checkpoint) Write(w io.Writer) error {
	if err := c.Validate(); err != nil {
		return err
	}
	manifest, err := json.Marshal(c.Manifest)
	if err != nil {
		return fmt.Errorf("encode manifest: %w", err)
	}
	header := map[string]any{"__metadata__": map[string]string{manifestKey: string(manifest)}}
	var data bytes.Buffer
	for _, p := range c.Manifest.Architecture.Params() {
		from := data.Len()
		if err := binary.Write(&data, binary.LittleEndian, c.Weights[p.Name].Data); err != nil {
			return fmt.Errorf("encode %s: %w", p.Name, err)
		}
		header[p.Name] = entry{"F32", p.Shape, [2]int{from, data.Len()}}
	}
	h, err := json.Marshal(header)
	if err != nil {
		return fmt.Errorf("encode header: %w", err)
	}
	h = append(h, bytes.Repeat([]byte(" "), (8-len(h)%8)%8)...) // data starts aligned
	if err := binary.Write(w, binary.LittleEndian, uint64(len(h))); err != nil {
		return err
	}
	if _, err := w.Write(h); err != nil {
		return err
	}
	_, err = w.Write(data.Bytes())
	return err
}

// Read reads and validates a checkpoint. It reads no more than the header announces. The error wraps
// ErrSchema if the network cannot run in this program; the data may also be malformed or hold weights
// that are not finite.
func Read(r io.Reader) (*Checkpoint, error) {
	header, err := readHeader(r)
	if err != nil {
		return nil, err
	}
	c := &Checkpoint{Weights: map[string]Tensor{}}
	if err := c.readManifest(header["__metadata__"]); err != nil {
		return nil, err
	}
	delete(header, "__metadata__")
	entries, size, err := readEntries(header)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(r, int64(size)+1))
	if err != nil {
		return nil, err
	}
	if len(data) != size {
		return nil, fmt.Errorf("%w: its tensors do not take the %d bytes of its header (truncated?)", errFormat, size)
	}
	for name, e := range entries {
		c.Weights[name] = e.tensor(data)
	}
	if err := c.Validate(); err != nil {
		return nil, err
	}
	return c, nil
}

// readHeader reads the header, with the tensors' entries as JSON.
func readHeader(r io.Reader) (map[string]json.RawMessage, error) {
	var n uint64
	if err := binary.Read(r, binary.LittleEndian, &n); err != nil {
		return nil, fmt.Errorf("%w: length of the header: %w", errFormat, err)
	}
	if n > maxHeader {
		return nil, fmt.Errorf("%w: header of %d bytes", errFormat, n)
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(r, b); err != nil {
		return nil, fmt.Errorf("%w: header of %d bytes (truncated?): %w", errFormat, n, err)
	}
	var header map[string]json.RawMessage
	if err := json.Unmarshal(b, &header); err != nil {
		return nil, fmt.Errorf("%w: header: %w", errFormat, err)
	}
	return header, nil
}

// readEntries decodes the entries of the tensors. size is the number of bytes of all tensors. They must
// follow one another: a small file with overlapping tensors could take any amount of memory.
func readEntries(header map[string]json.RawMessage) (entries map[string]entry, size int, err error) {
	entries = map[string]entry{}
	for name, raw := range header {
		e, err := readEntry(raw)
		if err != nil {
			return nil, 0, fmt.Errorf("%w: tensor %s: %w", errFormat, name, err)
		}
		entries[name] = e
	}
	for _, e := range slices.SortedFunc(maps.Values(entries), func(a, b entry) int { return slices.Compare(a.Offsets[:], b.Offsets[:]) }) {
		if e.Offsets[0] != size {
			return nil, 0, fmt.Errorf("%w: a tensor begins at byte %d, but the one before it ends at byte %d", errFormat, e.Offsets[0], size)
		}
		size = e.Offsets[1]
	}
	return entries, size, nil
}

func (c *Checkpoint) readManifest(raw json.RawMessage) error {
	var meta map[string]string
	if err := json.Unmarshal(raw, &meta); err != nil {
		return fmt.Errorf("%w: it has no metadata: %w", errFormat, err)
	}
	if err := json.Unmarshal([]byte(meta[manifestKey]), &c.Manifest); err != nil {
		return fmt.Errorf("%w: it has no manifest (is it a file of gnnsched?): %w", errFormat, err)
	}
	return nil
}

// readEntry decodes and checks the entry of a tensor.
func readEntry(raw json.RawMessage) (entry, error) {
	var e entry
	if err := json.Unmarshal(raw, &e); err != nil {
		return e, err
	}
	if e.DType != "F32" {
		return e, fmt.Errorf("dtype %q, want F32", e.DType)
	}
	from, to := e.Offsets[0], e.Offsets[1]
	if from < 0 || to < from || to > maxFile {
		return e, fmt.Errorf("bytes %d to %d, at most %d are read", from, to, maxFile)
	}
	n := 1
	for _, d := range e.Shape {
		if d < 0 || d > maxFile || n > maxFile {
			return e, fmt.Errorf("shape %v", e.Shape)
		}
		n *= d
	}
	if 4*n != to-from {
		return e, fmt.Errorf("shape %v in %d bytes", e.Shape, to-from)
	}
	return e, nil
}

// tensor returns the entry's tensor from the data of all.
func (e entry) tensor(data []byte) Tensor {
	data = data[e.Offsets[0]:e.Offsets[1]]
	t := Tensor{Shape: e.Shape, Data: make([]float32, len(data)/4)}
	for i := range t.Data {
		t.Data[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
	}
	return t
}

// Load reads and validates a file. It checks the kind and the size of the file before it reads, so that
// a named pipe does not block and a huge file takes no memory. The error wraps ErrFile if the file is
// not a regular one; see Read for others.
func Load(path string) (*Checkpoint, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // otherwise a pipe without a writer blocks
	if err != nil {
		return nil, fmt.Errorf("load checkpoint: %w", err)
	}
	defer f.Close()
	c, err := readFile(f)
	if err != nil {
		return nil, fmt.Errorf("load checkpoint %s: %w", path, err)
	}
	return c, nil
}

func readFile(f *os.File) (*Checkpoint, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%w (%v)", ErrFile, info.Mode())
	}
	if info.Size() > maxFile {
		return nil, fmt.Errorf("%w: %d bytes, at most %d are read", errFormat, info.Size(), maxFile)
	}
	return Read(f)
}

// Save writes the checkpoint to a file. It replaces the file in one step: a reader sees the old file
// or the new one, never a part.
func (c *Checkpoint) Save(path string) error {
	if err := files.WriteBy(path, 0o644, c.Write); err != nil {
		return fmt.Errorf("save checkpoint %s: %w", path, err)
	}
	return nil
}

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

// Random returns an untrained checkpoint of a valid architecture: every weight and bias uniform in
// ±1/√fan_in, norms at one and zero, and zero for the weights of rare features (feature.Feature.Rare).
// Training starts from it, and tests that need no learned weights use it.
func Random(a Architecture, r *rand.Rand) *Checkpoint {
	c := &Checkpoint{
		Manifest: Manifest{Schema: a.Schema(), Architecture: a, Objective: "none", Config: []byte("{}")},
		Weights:  map[string]Tensor{},
	}
	fanIn, inputs := a.Hidden, a.inputs()
	for _, p := range a.Params() {
		n := p.Shape[0]
		if len(p.Shape) == 2 {
			n *= p.Shape[1]
			fanIn = p.Shape[1] // also for the bias, which follows its weight
		}
		t := Tensor{Shape: p.Shape, Data: make([]float32, n)}
		bound := 1 / math.Sqrt(float64(fanIn))
		for i := range t.Data {
			switch p.Name {
			case "norm.weight":
				t.Data[i] = 1
			case "norm.bias":
			default:
				t.Data[i] = float32((2*r.Float64() - 1) * bound)
			}
		}
		c.Weights[p.Name] = t
		for column, feature := range inputs[p.reads] {
			for i := column; feature.Rare && i < n; i += fanIn {
				t.Data[i] = 0
			}
		}
	}
	return c
}

// CheckOnline returns why the network cannot learn from a running scheduler, or nil if it can. The steps that a scheduler
// sends hold kinds of pods and nothing else.
func (c *Checkpoint) CheckOnline() error {
	if a := c.Manifest.Architecture; a.Graph != KindsGraph {
		return errors.New("only a network on the graph of kinds, as gnn, dqn, acgnn and acdqn are, can learn from a running scheduler")
	}
	return nil
}

// OriginFigure, among a checkpoint's training figures, names the network that online learning began with.
const OriginFigure = "onlineOrigin"

// Origin returns the name of the network that all online learning up to c began with: the upper 53 bits of its fingerprint, which fit a
// JSON number.
func (c *Checkpoint) Origin() float64 {
	if o, ok := c.Manifest.Training[OriginFigure]; ok {
		return o
	}
	return float64(c.Fingerprint() >> 11)
}
