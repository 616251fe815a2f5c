package tensorboard_test

import (
	"encoding/binary"
	"hash/crc32"
	"math/bits"
	"os"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"gnnsched/internal/fatal"
)

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
			message("Value", field("tag", 1, text, ""), field("simple_value", 2, single, ""), field("histo", 5, sub, "HistogramProto")),
			message("HistogramProto", field("min", 1, double, ""), field("max", 2, double, ""), field("num", 3, double, ""),
				field("sum", 4, double, ""),
				field("sum_squares", 5, double, ""), repeated(field("bucket_limit", 6, double, "")), repeated(field("bucket", 7, double, ""))),
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

func (n node) numbers(name protoreflect.Name) []float64 {
	list := n.get(name).List()
	out := make([]float64, list.Len())
	for i := range out {
		out[i] = list.Get(i).Float()
	}
	return out
}

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
	b, err := os.ReadFile(path)
	fatal.If(t, err)
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
