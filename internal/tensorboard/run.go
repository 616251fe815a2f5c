package tensorboard

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"k8s.io/utils/clock"
)

// Run writes to the folder of one training run. It is not safe for concurrent use.
type Run struct {
	clock  clock.PassiveClock
	events *os.File
	err    error // the first error; nothing is written after it
}

// Open starts a new event file in dir, which it creates if it is missing. The caller calls Close at the end.
func Open(dir string, c clock.PassiveClock) (*Run, error) {
	r := &Run{clock: c}
	err := os.MkdirAll(dir, 0o755)
	if err == nil {
		r.events, err = create(dir, c)
	}
	if err != nil {
		return nil, fmt.Errorf("open the folder of the run: %w", err)
	}
	r.event(appendMessage(event(c.Now(), 0), eventFileVersion, []byte(fileVersion)))
	return r, nil
}

// create creates an event file. TensorBoard reads the files of a folder in the order of their names, so
// another file of the same second gets the same name with a suffix.
func create(dir string, c clock.PassiveClock) (*os.File, error) {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	name := filepath.Join(dir, fmt.Sprintf("events.out.tfevents.%010d.%s", c.Now().Unix(), host))
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	for i := 1; errors.Is(err, fs.ErrExist); i++ {
		f, err = os.OpenFile(fmt.Sprintf("%s.%06d", name, i), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	}
	return f, err
}

// Scalar writes one value. Close returns its error.
func (r *Run) Scalar(tag string, step int, v float64) {
	r.event(scalarEvent(r.clock.Now(), step, tag, v))
}

// Rewind removes the values of the steps after the given one, for a run that continues from there: TensorBoard drops them.
func (r *Run) Rewind(step int) { r.event(startEvent(r.clock.Now(), step+1)) }

func (r *Run) event(e []byte) {
	if r.err == nil {
		_, r.err = r.events.Write(record(e))
	}
}

// Close closes the file. It returns the first error of all calls.
func (r *Run) Close() error {
	if err := errors.Join(r.err, r.events.Close()); err != nil {
		return fmt.Errorf("write the metrics of the run: %w", err)
	}
	return nil
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// masked returns the checksum of the TFRecord format: CRC-32C, rotated right by 15 bits, plus a
// constant. The masking keeps checksums strong for data that contains checksums.
// https://www.tensorflow.org/tutorials/load_data/tfrecord#tfrecords_format_details
func masked(data []byte) uint32 {
	crc := crc32.Checksum(data, castagnoli)
	return (crc>>15 | crc<<17) + 0xa282ead8
}

// record returns data as a TFRecord: its length (8 bytes), the checksum of the length (4), the data and
// its checksum (4), in little endian.
func record(data []byte) []byte {
	out := binary.LittleEndian.AppendUint64(make([]byte, 0, len(data)+16), uint64(len(data)))
	out = binary.LittleEndian.AppendUint32(out, masked(out))
	out = append(out, data...)
	return binary.LittleEndian.AppendUint32(out, masked(data))
}

// Field numbers of the messages. The package comment says where they are defined.
const (
	eventWallTime    = 1
	eventStep        = 2
	eventFileVersion = 3
	eventSummary     = 5
	eventSessionLog  = 7

	sessionLogStatus = 1
	sessionStart     = 1 // of enum SessionStatus

	summaryValue = 1

	valueTag    = 1
	valueSimple = 2
)

// fileVersion is the version in the first event of every file.
const fileVersion = "brain.Event:2"

// event encodes the fields that all events have.
func event(now time.Time, step int) []byte {
	b := appendDouble(nil, eventWallTime, float64(now.UnixNano())/1e9)
	if step != 0 {
		b = protowire.AppendTag(b, eventStep, protowire.VarintType)
		b = protowire.AppendVarint(b, uint64(step))
	}
	return b
}

// startEvent returns an event that makes TensorBoard drop the values of earlier files from the given
// step on.
func startEvent(now time.Time, step int) []byte {
	log := protowire.AppendTag(nil, sessionLogStatus, protowire.VarintType)
	log = protowire.AppendVarint(log, sessionStart)
	return appendMessage(event(now, step), eventSessionLog, log)
}

func scalarEvent(now time.Time, step int, tag string, v float64) []byte {
	value := protowire.AppendTag(appendMessage(nil, valueTag, []byte(tag)), valueSimple, protowire.Fixed32Type)
	value = protowire.AppendFixed32(value, math.Float32bits(float32(v)))
	return appendMessage(event(now, step), eventSummary, appendMessage(nil, summaryValue, value))
}

func appendMessage(b []byte, field protowire.Number, message []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, field, protowire.BytesType), message)
}

func appendDouble(b []byte, field protowire.Number, v float64) []byte {
	return protowire.AppendFixed64(protowire.AppendTag(b, field, protowire.Fixed64Type), math.Float64bits(v))
}
