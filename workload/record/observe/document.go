package observe

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"unicode/utf16"

	"sigs.k8s.io/yaml"
)

// maxFile is the size of a file in bytes that is read at most.
const maxFile = 4 << 30

// notPrinted begins the error of a file that does not come from kubectl.
const notPrinted = "not what kubectl -o json or -o yaml prints"

// errNoObjects is the error of a whole file without objects of Kubernetes' API, errEmpty of an empty file, and errBroken of a file that may
// have had objects: it is cut off, compressed or malformed.
var (
	errNoObjects = errors.New(notPrinted)
	errEmpty     = errors.New("the file is empty")
	errBroken    = errors.New(notPrinted)
)

// eachDocument calls f with the documents of a text, one after another, as JSON. The text is JSON or YAML, in UTF-8 or UTF-16. It returns
// f's error, or the error of an empty or broken file.
func eachDocument(r io.Reader, f func(json.RawMessage) error) error {
	text, err := readText(r)
	if err != nil {
		return err
	}
	text = blank(text)
	switch {
	case len(text) == 0:
		return errEmpty
	case text[0] == '{' || text[0] == '[':
		return eachJSON(text, f)
	}
	return eachYAML(text, f)
}

// warnings are lines that kubectl writes to standard error, and that a redirection may put before the objects.
var warnings = regexp.MustCompile(`\A(Warning: |[IWE]\d{4} \d\d:\d\d:)[^\n]*\n`)

// blank returns a text without the white space, byte order marks and kubectl's warnings at its beginning. Files that were put together have
// marks between them.
func blank(text []byte) []byte {
	for {
		rest := bytes.TrimPrefix(bytes.TrimLeft(text, " \t\r\n"), []byte(byteOrderMark))
		rest = rest[len(warnings.Find(rest)):]
		if len(rest) == len(text) {
			return text
		}
		text = rest
	}
}

// byteOrderMark is a byte order mark in UTF-8.
const byteOrderMark = "\ufeff"

// readText returns a text as UTF-8. Bytes that are no text, such as a compressed file's or a device's, are an error at once.
func readText(r io.Reader) ([]byte, error) {
	in := bufio.NewReader(io.LimitReader(r, maxFile+1))
	begin, err := in.Peek(512)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if bytes.HasPrefix(begin, []byte("\x1f\x8b")) {
		return nil, fmt.Errorf("%w: the file is packed; unpack it first", errBroken)
	}
	order := utf16Order(begin)
	if bytes.IndexByte(begin, 0) >= 0 && order == nil {
		return nil, fmt.Errorf("%w: the file is no text", errBroken)
	}
	text, err := io.ReadAll(in)
	switch {
	case err != nil:
		return nil, err
	case len(text) > maxFile:
		return nil, fmt.Errorf("the file has more than %d bytes", maxFile)
	case order == nil:
		return text, nil
	}
	return fromUTF16(text, order)
}

// utf16Order returns the order of the two bytes of a character in a text in UTF-16; nil for another text. Without a mark, the first
// character tells: JSON and YAML begin with one of ASCII.
func utf16Order(begin []byte) binary.ByteOrder {
	switch {
	case len(begin) < 2:
		return nil
	case begin[0] == 0xff && begin[1] == 0xfe, begin[0] != 0 && begin[1] == 0:
		return binary.LittleEndian
	case begin[0] == 0xfe && begin[1] == 0xff, begin[0] == 0 && begin[1] != 0:
		return binary.BigEndian
	}
	return nil
}

func fromUTF16(text []byte, order binary.ByteOrder) ([]byte, error) {
	if len(text)%2 != 0 {
		return nil, fmt.Errorf("%w: the file is UTF-16, and its last character is cut off", errBroken)
	}
	units := make([]uint16, len(text)/2)
	for i := range units {
		units[i] = order.Uint16(text[2*i:])
	}
	return []byte(string(utf16.Decode(units))), nil
}

func eachJSON(text []byte, f func(json.RawMessage) error) error {
	all := int64(len(text))
	for len(text) > 0 {
		dec := json.NewDecoder(bytes.NewReader(text))
		var raw json.RawMessage
		err := dec.Decode(&raw)
		syntax := (*json.SyntaxError)(nil)
		switch {
		case errors.Is(err, io.ErrUnexpectedEOF):
			return fmt.Errorf("%w: the file is cut off after %d bytes", errBroken, all)
		case bytes.HasPrefix(text, []byte("==== START logs")):
			const apart = "kubectl cluster-info dump --output-directory keeps them apart"
			return fmt.Errorf("%w: there are logs of containers between the lists; %s", errBroken, apart)
		case errors.As(err, &syntax):
			return fmt.Errorf("byte %d: %w: %w", all-int64(len(text))+syntax.Offset, errBroken, err)
		case err != nil:
			return fmt.Errorf("%w: %w", errBroken, err)
		}
		if err := f(raw); err != nil {
			return err
		}
		text = blank(text[dec.InputOffset():])
	}
	return nil
}

// kept matches the kinds of objects that a record holds, and of lists. What redaction or a chart's templates leave of other kinds may be no
// YAML any more.
var (
	kept = regexp.MustCompile(`(?m)^[ -]*"?kind"?: *"?(Pod|Node|Namespace|PriorityClass|PodDisruptionBudget|Job|Deployment|ReplicaSet|` +
		`StatefulSet|DaemonSet|CronJob|HorizontalPodAutoscaler)?(List)?"?,?\r?$`)
	alien = regexp.MustCompile(`(?m)^[ -]*"?kind"?: *"?\w`)
)

func eachYAML(text []byte, f func(json.RawMessage) error) error {
	found := false
	for n, part := range bytes.Split(append([]byte("\n"), text...), []byte("\n---")) {
		raw, err := yaml.YAMLToJSON(part)
		switch {
		case err != nil && (bytes.Contains(part, []byte("{{")) || alien.Match(part) && !kept.Match(part)):
			return fmt.Errorf("document %d: %w: %w", n+1, errNoObjects, err)
		case err != nil:
			return fmt.Errorf("document %d: %w: %w", n+1, errBroken, err)
		case string(raw) == "null": // before the first ---
			continue
		}
		found = true
		if err := f(raw); err != nil {
			return err
		}
	}
	if !found {
		return errEmpty
	}
	return nil
}
