package tensorboard_test

import (
	"encoding/binary"
	"hash/crc32"
	"math"
	"math/bits"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
	clocktest "k8s.io/utils/clock/testing"

	"gnnsched/internal/each"
	"gnnsched/internal/fatal"
	"gnnsched/internal/tensorboard"
)

var noon = time.Unix(1_700_000_000, 500_000_000)

// write opens a run in dir, calls do and closes the run.
func write(t *testing.T, dir string, at time.Time, do func(*tensorboard.Run)) {
	t.Helper()
	r := fatal.Value(tensorboard.Open(dir, clocktest.NewFakePassiveClock(at)))(t)
	do(r)
	fatal.If(t, r.Close())
}

func eventFiles(t *testing.T, dir string) []string {
	t.Helper()
	files := fatal.Value(filepath.Glob(filepath.Join(dir, "events.out.tfevents.*")))(t)
	slices.Sort(files)
	return files
}

func TestScalar(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "logs", "run")
	write(t, dir, noon, func(r *tensorboard.Run) {
		r.Scalar("train/loss", 0, 0.1)
		r.Scalar("train/loss", 1<<40, math.Inf(-1))
		r.Scalar("a, \"b\"", 7, -2)
	})
	files := eventFiles(t, dir)
	host := fatal.Value(os.Hostname())(t)
	if want := filepath.Join(dir, "events.out.tfevents.1700000000."+host); len(files) != 1 || files[0] != want {
		t.Fatalf("files %v, want %s", files, want)
	}
	type row struct {
		tag   string
		step  int64
		value float32
	}
	var got []row
	for i, e := range decode(t, files[0]) {
		if e.number("wall_time") != 1_700_000_000.5 {
			t.Errorf("wall time %v", e.number("wall_time"))
		}
		if i == 0 {
			if v := e.get("file_version").String(); v != "brain.Event:2" {
				t.Errorf("file version %q", v)
			}
			continue
		}
		v := e.value(t)
		got = append(got, row{v.get("tag").String(), e.get("step").Int(), float32(v.number("simple_value"))})
	}
	want := []row{{"train/loss", 0, 0.1}, {"train/loss", 1 << 40, float32(math.Inf(-1))}, {"a, \"b\"", 7, -2}}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// A second run in a folder gets an event file of its own, which sorts after the first one even within
// one second.
func TestSecondRun(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, noon, func(r *tensorboard.Run) { r.Scalar("x", 1, 1) })
	write(t, dir, noon, func(r *tensorboard.Run) { r.Scalar("x", 2, 2) })
	write(t, dir, noon.Add(time.Second), func(r *tensorboard.Run) { r.Scalar("x", 3, 3) })
	var steps []int64
	for _, file := range eventFiles(t, dir) {
		steps = append(steps, each.Map(decode(t, file)[1:], func(e node) int64 { return e.get("step").Int() })...)
	}
	if !slices.Equal(steps, []int64{1, 2, 3}) {
		t.Errorf("steps %v", steps)
	}
}

// Rewind begins a session at the next step.
func TestRewind(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, noon, func(r *tensorboard.Run) { r.Scalar("x", 9, 1); r.Rewind(7) })
	e := decode(t, eventFiles(t, dir)[0])[2]
	if e.get("step").Int() != 8 || e.sub("session_log").get("status").Int() != 1 || e.has("summary") {
		t.Errorf("the event is %v, want the start of a session at step 8", e.Message)
	}
}

func TestErrors(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	fatal.If(t, os.WriteFile(file, nil, 0o600))
	if _, err := tensorboard.Open(file, clocktest.NewFakePassiveClock(noon)); err == nil {
		t.Error("no error for a file in place of the folder")
	}
}

// The decoder in this file is independent of the writer: protobuf's runtime reads the messages, with
// descriptors that follow TensorFlow's definitions.

func field(name string, number int32, kind descriptorpb.FieldDescriptorProto_Type, message string) *descriptorpb.FieldDescriptorProto {
	f := &descriptorpb.FieldDescriptorProto{
		Name: &name, Number: &number, Type: &kind, Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(),
	}
	if message != "" {
		f.TypeName = proto.String(".tensorflow." + message)
	}
	return f
}

func repeated(f *descriptorpb.FieldDescriptorProto) *descriptorpb.FieldDescriptorProto {
	f.Label = descriptorpb.FieldDescriptorProto_LABEL_REPEATED.Enum()
	return f
}

func message(name string, fields ...*descriptorpb.FieldDescriptorProto) *descriptorpb.DescriptorProto {
	return &descriptorpb.DescriptorProto{Name: &name, Field: fields}
}

func eventDescriptor(t *testing.T) protoreflect.MessageDescriptor {
	t.Helper()
	const (
		double = descriptorpb.FieldDescriptorProto_TYPE_DOUBLE
		single = descriptorpb.FieldDescriptorProto_TYPE_FLOAT
		long   = descriptorpb.FieldDescriptorProto_TYPE_INT64
		short  = descriptorpb.FieldDescriptorProto_TYPE_INT32
		text   = descriptorpb.FieldDescriptorProto_TYPE_STRING
		sub    = descriptorpb.FieldDescriptorProto_TYPE_MESSAGE
	)
	file, err := protodesc.NewFile(&descriptorpb.FileDescriptorProto{
		Name: proto.String("event.proto"), Package: proto.String("tensorflow"), Syntax: proto.String("proto3"),
		MessageType: []*descriptorpb.DescriptorProto{
			message("Event", field("wall_time", 1, double, ""), field("step", 2, long, ""), field("file_version", 3, text, ""),
				field("summary", 5, sub, "Summary"), field("session_log", 7, sub, "SessionLog")),
			message("SessionLog", field("status", 1, short, "")), // an enum: the same on the wire
			message("Summary", repeated(field("value", 1, sub, "Value"))),
			message("Value", field("tag", 1, text, ""), field("simple_value", 2, single, "")),
		},
	}, nil)
	fatal.If(t, err)
	return file.Messages().ByName("Event")
}

// node is a message whose fields are read by name.
type node struct{ protoreflect.Message }

func (n node) get(name protoreflect.Name) protoreflect.Value {
	return n.Get(n.Descriptor().Fields().ByName(name))
}
func (n node) sub(name protoreflect.Name) node       { return node{n.get(name).Message()} }
func (n node) has(name protoreflect.Name) bool       { return n.Has(n.Descriptor().Fields().ByName(name)) }
func (n node) number(name protoreflect.Name) float64 { return n.get(name).Float() }

// value returns the only value of the event's summary.
func (n node) value(t *testing.T) node {
	t.Helper()
	list := n.sub("summary").get("value").List()
	if list.Len() != 1 {
		t.Fatalf("%d values in a summary", list.Len())
	}
	return node{list.Get(0).Message()}
}

// decode reads an event file. It checks the checksums, and fails on fields that TensorFlow's definitions
// do not have.
func decode(t *testing.T, path string) []node {
	t.Helper()
	b := fatal.Value(os.ReadFile(path))(t)
	check := func(data, sum []byte) {
		crc := crc32.New(crc32.MakeTable(crc32.Castagnoli))
		crc.Write(data)
		unmasked := bits.RotateLeft32(binary.LittleEndian.Uint32(sum)-0xa282ead8, 15)
		if unmasked != crc.Sum32() {
			t.Fatalf("%s: checksum %x, want %x", path, unmasked, crc.Sum32())
		}
	}
	descriptor := eventDescriptor(t)
	var out []node
	for len(b) > 0 {
		n := binary.LittleEndian.Uint64(b)
		check(b[:8], b[8:12])
		check(b[12:12+n], b[12+n:])
		m := dynamicpb.NewMessage(descriptor)
		fatal.If(t, (proto.UnmarshalOptions{}).Unmarshal(b[12:12+n], m))
		unknown(t, m)
		out = append(out, node{m})
		b = b[12+n+4:]
	}
	return out
}

func unknown(t *testing.T, m protoreflect.Message) {
	t.Helper()
	if u := m.GetUnknown(); len(u) > 0 {
		t.Fatalf("unknown fields %x in %s", []byte(u), m.Descriptor().Name())
	}
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.Message() == nil:
		case f.IsList():
			for i := range v.List().Len() {
				unknown(t, v.List().Get(i).Message())
			}
		default:
			unknown(t, v.Message())
		}
		return true
	})
}
