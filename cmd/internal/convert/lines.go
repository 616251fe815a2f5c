package convert

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// maxLine is the longest line that is read, in bytes. A year of values for five minutes takes 500 KB.
const maxLine = 16 << 20

// table reads the lines of a file as cells.
type table struct {
	r     *reading
	file  string
	lines *bufio.Scanner
	comma string
	cells []string
	line  int
	err   error // of the cells of this line
}

// open returns the table of a file.
func (r *reading) open(f measuredFile, comma string) *table {
	t := &table{r: r, file: f.Name, lines: bufio.NewScanner(f), comma: comma}
	t.lines.Buffer(make([]byte, 0, 64<<10), maxLine)
	return t
}

// next reads the next line that is not blank. want is the least number of cells.
func (t *table) next(want int) bool {
	for t.err == nil && t.lines.Scan() {
		t.line++
		text := strings.TrimPrefix(t.lines.Text(), "\ufeff")
		if strings.TrimSpace(text) == "" {
			continue
		}
		t.cells = strings.Split(text, t.comma)
		for i, c := range t.cells {
			t.cells[i] = strings.TrimSpace(c)
		}
		if len(t.cells) < want {
			t.fail("the line has %d cells, want %d", len(t.cells), want)
			return false
		}
		return true
	}
	return false
}

// fail notes the first fault, which ends the reading.
func (t *table) fail(format string, a ...any) {
	if t.err == nil {
		t.err = fmt.Errorf("%s:%d: %w", t.file, t.line, fmt.Errorf(format, a...))
	}
}

// number returns a cell as a number. An empty cell is NaN.
func (t *table) number(i int, what string) float64 {
	if t.cells[i] == "" {
		return math.NaN()
	}
	x, err := strconv.ParseFloat(t.cells[i], 64)
	if err != nil {
		t.fail("%s: %.40q is not a number", what, t.cells[i])
	}
	return x
}

// given returns a cell with an amount that a machine or job was given, which must be 0 or more.
func (t *table) given(i int, what string, most float64) float64 {
	x := t.number(i, what)
	if t.cells[i] == "" {
		return 0
	}
	if !(x >= 0 && x <= most) { // also refuses NaN
		t.fail("%s: %v is not 0 to %g", what, x, most)
		return 0
	}
	return x
}

// time returns a cell with a time in seconds, which must be there.
func (t *table) time(i int, what string) float64 {
	x := t.number(i, what)
	if !(math.Abs(x) < 1e11) {
		t.fail("%s: %.40q is not a time in seconds", what, t.cells[i])
		return 0
	}
	return x
}

// close returns the error that ended the reading; nil at the end of the file.
func (t *table) close() error {
	if t.err != nil {
		return t.err
	}
	if err := t.lines.Err(); err != nil {
		if errors.Is(err, bufio.ErrTooLong) {
			return fmt.Errorf("%s:%d: the line is longer than %d MB", t.file, t.line+1, maxLine>>20)
		}
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return fmt.Errorf("%s:%d: the file ends in the middle of a line", t.file, t.line+1)
		}
		return fmt.Errorf("%s: %w", t.file, err)
	}
	return nil
}
