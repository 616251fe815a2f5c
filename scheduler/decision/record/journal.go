package record

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"gopkg.in/natefinch/lumberjack.v2"
)

// A journal of maxMegabytes is renamed, with its time in the name, and a new one begun. The oldest is deleted when
// there are more than maxBackups besides the current one. So all take at most 500 MB.
const (
	maxMegabytes = 100
	maxBackups   = 4
)

// Journal writes records to a file. It is safe for concurrent use.
type Journal interface {
	write(Record)
	// Close closes the file. Later decisions open it again.
	Close() error
}

// OpenJournal opens the file, which only its owner may read: it names pods. If its name ends in .parquet, it is a Parquet file,
// else one JSON object a line. failed is called for the first record of several that cannot be written, for example because
// the disk is full, and once more when writing works again, with a nil error and the number of lost ones.
func OpenJournal(path string, failed func(err error, lost uint64)) (Journal, error) {
	if strings.HasSuffix(path, ".parquet") {
		return openTable(path, failed)
	}
	return openLines(path, failed)
}

// lines is a journal of one JSON object a line.
type lines struct {
	failed func(err error, lost uint64)

	mu   sync.Mutex
	file io.WriteCloser
	line []byte
	lost uint64 // records that could not be written since the last that could
	torn bool   // whether the last write may have left a part of a line
}

func openLines(path string, failed func(err error, lost uint64)) (*lines, error) {
	// lumberjack opens the file at the first line, which is too late for a usage error.
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	torn, err := endsInside(f)
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	return &lines{file: &lumberjack.Logger{Filename: path, MaxSize: maxMegabytes, MaxBackups: maxBackups}, failed: failed, torn: torn}, nil
}

// endsInside reports whether the file ends without a line feed: the process that wrote it was killed. It fails for
// what is no file, such as a folder or a pipe.
func endsInside(f *os.File) (bool, error) {
	info, err := f.Stat()
	if err != nil {
		return false, err
	}
	if !info.Mode().IsRegular() {
		return false, fmt.Errorf("%s is not a regular file", f.Name())
	}
	if info.Size() == 0 {
		return false, nil
	}
	last := make([]byte, 1)
	if _, err := f.ReadAt(last, info.Size()-1); err != nil {
		return false, err
	}
	return last[0] != '\n', nil
}

// write writes a record as a line.
func (j *lines) write(r Record) {
	text, err := json.Marshal(r)
	if err != nil { // a score that is not finite, which no policy may give
		j.failed(fmt.Errorf("write a decision: %w", err), 1)
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.line = j.line[:0]
	if j.torn {
		j.line = append(j.line, '\n')
	}
	j.line = append(append(j.line, text...), '\n')
	if _, err := j.file.Write(j.line); err != nil {
		if j.torn = true; j.lost == 0 {
			j.failed(fmt.Errorf("write a decision: %w", err), 1)
		}
		j.lost++
		return
	}
	j.torn = false
	if j.lost > 0 {
		j.failed(nil, j.lost)
		j.lost = 0
	}
}

// Close implements Journal.
func (j *lines) Close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.file.Close()
}
