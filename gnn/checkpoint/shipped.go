package checkpoint

import (
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"gnnsched/internal/files"
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

// TypicalPods says which pods a network for GPU clusters was trained on. It lies beside the checkpoint, in
// the file TypicalPath. A scheduler goes by it until it knows its own pods.
type TypicalPods struct {
	Family []string     `json:"family"` // the workloads that the network was trained on; each weighs the same
	Pods   []TypicalPod `json:"pods"`   // the most frequent first

}

// TypicalPod is the request of many pods.
type TypicalPod struct {
	MilliCPU  int64    `json:"milliCPU,omitempty"`
	GPU       int64    `json:"gpu,omitempty"`       // whole devices
	GPUMilli  int64    `json:"gpuMilli,omitempty"`  // thousandths of one device that the pod shares
	GPUModels []string `json:"gpuModels,omitempty"` // that the pod accepts; none for any
	Frequency float64  `json:"frequency"`           // among the family's pods
}

// Save writes the pods beside the checkpoint file, in one step as Checkpoint.Save.
func (t *TypicalPods) Save(checkpoint string) error {
	text, err := json.MarshalIndent(t, "", " ")
	if err != nil {
		return fmt.Errorf("save typical pods: %w", err)
	}
	if err := files.Write(TypicalPath(checkpoint), append(text, '\n'), 0o644); err != nil {
		return fmt.Errorf("save typical pods: %w", err)
	}
	return nil
}

// validate returns an error for the first pod without a frequency or with a negative request.
func (t *TypicalPods) validate() error {
	if len(t.Pods) == 0 {
		return errors.New("there are no typical pods")
	}
	for i, p := range t.Pods {
		if !(p.Frequency > 0 && p.Frequency <= 1) {
			return fmt.Errorf("pods[%d]: frequency %v is not over 0 and at most 1", i, p.Frequency)
		}
		if p.MilliCPU < 0 || p.GPU < 0 || p.GPUMilli < 0 || p.GPU > 0 && p.GPUMilli > 0 {
			return fmt.Errorf("pods[%d]: requests %d thousandths of a CPU, %d GPUs and %d thousandths of one", i, p.MilliCPU, p.GPU, p.GPUMilli)
		}
	}
	return nil
}

// TypicalPath returns the path of the typical pods beside a checkpoint.
func TypicalPath(checkpoint string) string {
	return strings.TrimSuffix(checkpoint, extension) + ".typical.json"
}

const extension = ".safetensors"

// maxTypical is the largest file of typical pods that is read, in bytes.
const maxTypical = 1 << 20

// LoadTypical reads the typical pods beside the checkpoint file. They are nil if there are none.
func LoadTypical(checkpoint string) (*TypicalPods, error) {
	path := TypicalPath(checkpoint)
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil && (!info.Mode().IsRegular() || info.Size() > maxTypical) {
		err = fmt.Errorf("%s: %w of at most %d bytes", path, ErrFile, maxTypical)
	}
	if err != nil {
		return nil, fmt.Errorf("load typical pods: %w", err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("load typical pods: %w", err)
	}
	return readTypical(path, text)
}

// ShippedTypical returns the typical pods of a shipped checkpoint. They are nil if it has none.
func ShippedTypical(variant string) (*TypicalPods, error) {
	path := TypicalPath("shipped/" + variant)
	text, err := fs.ReadFile(shipped, path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("load typical pods: %w", err)
	}
	return readTypical(path, text)
}

func readTypical(path string, text []byte) (*TypicalPods, error) {
	t := &TypicalPods{}
	err := json.Unmarshal(text, t) // files of older trainers have more
	if err == nil {
		err = t.validate()
	}
	if err != nil {
		return nil, fmt.Errorf("load typical pods: %s: %w", path, err)
	}
	return t, nil
}
