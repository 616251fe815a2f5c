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

// Histogram writes the distribution of the finite values. Close returns its error.
func (r *Run) Histogram(tag string, step int, values []float64) {
	if h := newHistogram(values); h.num > 0 {
		r.event(histogramEvent(r.clock.Now(), step, tag, h))
	}
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
	valueHisto  = 5

	histoMin     = 1
	histoMax     = 2
	histoNum     = 3
	histoSum     = 4
	histoSquares = 5
	histoLimits  = 6
	histoCounts  = 7
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
	value := protowire.AppendTag(nil, valueSimple, protowire.Fixed32Type)
	value = protowire.AppendFixed32(value, math.Float32bits(float32(v)))
	return summaryEvent(now, step, tag, value)
}

func histogramEvent(now time.Time, step int, tag string, h histogram) []byte {
	histo := appendDouble(nil, histoMin, h.min)
	histo = appendDouble(histo, histoMax, h.max)
	histo = appendDouble(histo, histoNum, h.num)
	histo = appendDouble(histo, histoSum, h.sum)
	histo = appendDouble(histo, histoSquares, h.squares)
	histo = appendDoubles(histo, histoLimits, h.limits)
	histo = appendDoubles(histo, histoCounts, h.counts)
	return summaryEvent(now, step, tag, appendMessage(nil, valueHisto, histo))
}

// summaryEvent returns an event with one value. fields are the value's encoded fields except the tag.
func summaryEvent(now time.Time, step int, tag string, fields []byte) []byte {
	value := append(appendMessage(nil, valueTag, []byte(tag)), fields...)
	return appendMessage(event(now, step), eventSummary, appendMessage(nil, summaryValue, value))
}

func appendMessage(b []byte, field protowire.Number, message []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, field, protowire.BytesType), message)
}

func appendDouble(b []byte, field protowire.Number, v float64) []byte {
	return protowire.AppendFixed64(protowire.AppendTag(b, field, protowire.Fixed64Type), math.Float64bits(v))
}

func appendDoubles(b []byte, field protowire.Number, values []float64) []byte {
	var packed []byte
	for _, v := range values {
		packed = protowire.AppendFixed64(packed, math.Float64bits(v))
	}
	return appendMessage(b, field, packed)
}

// bins is the number of equally wide buckets of a histogram, as TensorBoard draws them.
const bins = 30

// histogram is the content of a HistogramProto.
type histogram struct {
	min, max float64
	num      float64   // number of values
	sum      float64   // of the values
	squares  float64   // sum of their squares
	limits   []float64 // upper limits of the buckets, ascending
	counts   []float64 // counts[i] is the number of values above limits[i-1] and up to limits[i]
}

// newHistogram returns the histogram of the finite values. It is empty if there are none.
func newHistogram(values []float64) histogram {
	h := histogram{min: math.Inf(1), max: math.Inf(-1)}
	finite := make([]float64, 0, len(values))
	for _, v := range values {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			continue
		}
		finite = append(finite, v)
		h.min, h.max = min(h.min, v), max(h.max, v)
		h.num++
		h.sum += v
		h.squares += v * v
	}
	if len(finite) == 0 {
		return histogram{}
	}
	width := h.max/bins - h.min/bins // divided first, because max - min may overflow
	if width == 0 {
		h.limits, h.counts = []float64{h.max}, []float64{h.num}
		return h
	}
	h.limits, h.counts = make([]float64, bins), make([]float64, bins)
	for i := range bins - 1 {
		h.limits[i] = min(h.min+width*float64(i+1), h.max)
	}
	h.limits[bins-1] = h.max
	for _, v := range finite {
		h.counts[h.bin(v, width)]++
	}
	return h
}

// bin returns the index of the first bucket whose limit is at least v. It corrects the rounding error of
// the division.
func (h *histogram) bin(v, width float64) int {
	i := min(max(int(v/width-h.min/width), 0), bins-1)
	for i > 0 && v <= h.limits[i-1] {
		i--
	}
	for v > h.limits[i] {
		i++
	}
	return i
}
