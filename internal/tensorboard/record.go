package tensorboard

import (
	"encoding/binary"
	"hash/crc32"
)

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
