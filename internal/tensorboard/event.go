package tensorboard

import (
	"math"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

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

// versionEvent returns the first event of a file.
func versionEvent(now time.Time) []byte {
	return appendMessage(event(now, 0), eventFileVersion, []byte(fileVersion))
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
