package checkpoint

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gnnsched/internal/fatal"
)

func random(e Encoder) *Checkpoint {
	return Random(Architecture{Encoder: e, Head: DQN, Hidden: 8}, rand.New(rand.NewPCG(1, 2)))
}

func encode(t testing.TB, c *Checkpoint) []byte {
	var b bytes.Buffer
	fatal.If(t, c.Write(&b))
	return b.Bytes()
}

func TestRoundTrip(t *testing.T) {
	for _, e := range []Encoder{GNN, MLP} {
		c := random(e)
		c.Manifest.Training = map[string]float64{"steps": 12}
		path := filepath.Join(t.TempDir(), "c.safetensors")
		fatal.If(t, c.Save(path))
		got, err := Load(path)
		fatal.If(t, err)
		if d := cmp.Diff(c, got); d != "" {
			t.Errorf("%s: %s", e, d)
		}
		if !bytes.Equal(encode(t, c), encode(t, got)) {
			t.Error("the same content gives other bytes")
		}
	}
}

// overlapping returns the file with two tensors at one place.
func overlapping(t *testing.T, file []byte) []byte {
	t.Helper()
	end := 8 + binary.LittleEndian.Uint64(file)
	var header map[string]json.RawMessage
	fatal.If(t, json.Unmarshal(file[8:end], &header))
	header["node.bias"] = header["zone.bias"] // of the same shape
	b, err := json.Marshal(header)
	fatal.If(t, err)
	out := binary.LittleEndian.AppendUint64(nil, uint64(len(b)))
	return append(append(out, b...), file[end:]...)
}

func TestReadRefuses(t *testing.T) {
	good := encode(t, random(GNN))
	nan := bytes.Clone(good)
	copy(nan[8+binary.LittleEndian.Uint64(good):], bytes.Repeat([]byte{0xff}, 4)) // the first weight
	header := func(old, new string) []byte {
		b := bytes.Replace(good, []byte(old), []byte(new), 1)
		binary.LittleEndian.PutUint64(b, binary.LittleEndian.Uint64(good)+uint64(len(new)-len(old)))
		return b
	}
	schema := random(GNN).Manifest.Schema
	for _, c := range []struct {
		name string
		data []byte
		want error
	}{
		{"empty", nil, errFormat},
		{"text", []byte("this is not a checkpoint at all"), errFormat},
		{"truncated header", good[:100], errFormat},
		{"truncated data", good[:len(good)-5], errFormat},
		{"huge header", append([]byte{255, 255, 255, 255, 255, 255, 255, 127}, good[8:]...), errFormat},
		{"other schema", header(schema, "0123456789abcdef"), ErrSchema},
		{"unknown encoder", header(`\"encoder\":\"gnn\"`, `\"encoder\":\"xyz\"`), ErrSchema},
		{"other size", header(`\"hidden\":8`, `\"hidden\":9`), ErrSchema},
		{"missing tensor", header(`"zone.bias"`, `"zone.BIAS"`), ErrSchema},
		{"not ours", header(`"gnnsched"`, `"somebody"`), errFormat},
		{"overlap", overlapping(t, good), errFormat},
		{"NaN", nan, errNaN},
	} {
		if _, err := Read(bytes.NewReader(c.data)); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
}

func TestWriteRefusesNaN(t *testing.T) {
	c := random(MLP)
	c.Weights["node.bias"].Data[1] = float32(math.Inf(1))
	if err := c.Write(&bytes.Buffer{}); !errors.Is(err, errNaN) {
		t.Errorf("got %v", err)
	}
}

func TestSaveLeavesNoLitter(t *testing.T) {
	dir := t.TempDir()
	c := random(MLP)
	delete(c.Weights, "pod.bias")
	if err := c.Save(filepath.Join(dir, "c")); !errors.Is(err, ErrSchema) {
		t.Errorf("got %v", err)
	}
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

func FuzzRead(f *testing.F) {
	good := encode(f, random(MLP))
	f.Add(good)
	f.Add(good[:len(good)/2])
	f.Add([]byte("\x02\x00\x00\x00\x00\x00\x00\x00{}"))
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := Read(bytes.NewReader(b))
		if err != nil {
			return
		}
		again, err := Read(bytes.NewReader(encode(t, c)))
		if err != nil || !cmp.Equal(c.Weights, again.Weights) {
			t.Fatalf("accepted, but does not survive a round trip: %v", err)
		}
	})
}

// A rare feature that training never shows must do nothing: its weights start at zero and have no
// gradient while the feature is zero. That holds for the shipped checkpoints, too.
func TestRareFeaturesDoNothing(t *testing.T) {
	all := map[string]*Checkpoint{"random": random(GNN)}
	for _, name := range ShippedNames() {
		c, err := Shipped(name)
		fatal.If(t, err)
		all[name] = c
	}
	for name, c := range all {
		features := c.Manifest.Architecture.inputs()
		for _, p := range c.Manifest.Architecture.Params() {
			w := c.Weights[p.Name]
			for column, feature := range features[p.reads] {
				for i := column; feature.Rare && i < len(w.Data); i += w.Shape[1] {
					if w.Data[i] != 0 {
						t.Fatalf("%s: %s reads %s with weight %v", name, p.Name, feature.Name, w.Data[i])
					}
				}
			}
		}
	}
}
