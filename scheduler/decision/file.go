package decision

import (
	"bufio"
	"fmt"
	"os"
)

// maxLine is the longest line that is read, in bytes.
const maxLine = 2 << 20

// ReadRecords calls each with the records of a file that a Journal wrote, in their order. The last line may be cut off. For any other
// file it returns an error with the file and the line.
func ReadRecords(path string, each func(Record)) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	lines, faulty := bufio.NewScanner(f), error(nil)
	number, records := 0, 0
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		if number++; len(lines.Bytes()) == 0 {
			continue
		}
		r, err := ParseRecord(lines.Bytes())
		if err != nil { // a torn line of a killed writer, unless no line is a record
			faulty = fmt.Errorf("%s:%d: %w", path, number, err)
			continue
		}
		records++
		each(r)
	}
	if err := lines.Err(); err != nil { // the rest may be newer
		return fmt.Errorf("%s:%d: %w", path, number+1, err)
	}
	if records == 0 && faulty != nil {
		return faulty
	}
	return nil
}
