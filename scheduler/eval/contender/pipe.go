package contender

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"gnnsched/internal/exit"
)

//go:embed serve.py
var pipeProgram string

// patience is how long the interpreter may take to start and to load the policy.
const patience = 60 * time.Second

// maxFrame bounds the bytes of an answer.
const maxFrame = 1 << 30

// pipe is a running interpreter with a policy.
type pipe struct {
	command *exec.Cmd
	cancel  context.CancelFunc
	in      io.WriteCloser
	answers chan answer // closed at the end of the output
	failure error       // why answers was closed
	said    tail
	timeout time.Duration
}

// answer is a frame from the interpreter.
type answer struct {
	Error       string  `json:"error"`
	Environment *int    `json:"environment"` // that the error is about, if it is known
	Kind        string  `json:"kind"`        // actions, scores, or another type of values
	Shape       []int   `json:"shape"`
	Bytes       int     `json:"bytes"`
	Wants       wants   `json:"wants"`
	Timeout     float64 `json:"timeout"` // seconds for one answer
	data        []byte
}

// wants says what a policy wants to observe.
type wants struct {
	Features   []string `json:"features"`
	Graph, Raw bool
}

// start runs the interpreter, and returns it with what the policy wants.
func start(ctx context.Context, file string) (*pipe, wants, error) {
	program := cmp.Or(os.Getenv("GNNSCHED_PYTHON"), "python3")
	ctx, cancel := context.WithCancel(ctx)
	p := &pipe{command: exec.CommandContext(ctx, program, "-c", pipeProgram, file), cancel: cancel, answers: make(chan answer),
		timeout: patience}
	p.command.Stderr, p.command.WaitDelay = &p.said, time.Second
	in, inErr := p.command.StdinPipe()
	out, outErr := p.command.StdoutPipe()
	if err := errors.Join(inErr, outErr, p.command.Start()); err != nil {
		cancel()
		return nil, wants{}, exit.New(exit.Usage, fmt.Errorf("run Python: %w", err),
			"install Python 3 with NumPy, or name an interpreter in GNNSCHED_PYTHON")
	}
	p.in = in
	go p.read(ctx, bufio.NewReaderSize(out, 1<<16))
	a, err := p.next(ctx)
	if err == nil && a.Error != "" {
		err = errors.New(a.Error)
	}
	if err != nil {
		p.close()
		return nil, wants{}, fmt.Errorf("load the policy: %w", err)
	}
	if a.Timeout > 0 {
		p.timeout = time.Duration(a.Timeout * float64(time.Second))
	}
	return p, a.Wants, nil
}

// read passes on answers until the output ends.
func (p *pipe) read(ctx context.Context, r *bufio.Reader) {
	defer close(p.answers)
	for {
		a, err := frame(r)
		if err != nil {
			p.failure = err
			return
		}
		select {
		case p.answers <- a:
		case <-ctx.Done():
			return
		}
	}
}

func frame(r io.Reader) (a answer, err error) {
	var n uint32
	if err := binary.Read(r, binary.LittleEndian, &n); err != nil {
		return a, err
	}
	if n > maxFrame {
		return a, fmt.Errorf("a header of %d bytes", n)
	}
	header := make([]byte, n)
	if _, err := io.ReadFull(r, header); err != nil {
		return a, err
	}
	if err := json.Unmarshal(header, &a); err != nil {
		return a, err
	}
	if a.Bytes < 0 || a.Bytes > maxFrame {
		return a, fmt.Errorf("an answer of %d bytes", a.Bytes)
	}
	a.data = make([]byte, a.Bytes)
	_, err = io.ReadFull(r, a.data)
	return a, err
}

// next returns the next answer.
func (p *pipe) next(ctx context.Context) (answer, error) {
	timer := time.NewTimer(p.timeout)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return answer{}, ctx.Err()
	case <-timer.C:
		return answer{}, fmt.Errorf("no answer within %s; a policy file that needs longer sets TIMEOUT, in seconds", p.timeout)
	case a, more := <-p.answers:
		if !more {
			p.cancel()
			state := p.command.Wait()
			return a, fmt.Errorf("the interpreter ended (%v, %v; it is %s, and GNNSCHED_PYTHON names another)%s", state, p.failure, p.command.Path,
				p.said.last())
		}
		return a, nil
	}
}

// send writes a frame.
func (p *pipe) send(header any, arrays ...[]byte) error {
	text, err := json.Marshal(header)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	b.Write(binary.LittleEndian.AppendUint32(nil, uint32(len(text))))
	b.Write(text)
	for _, a := range arrays {
		b.Write(a)
	}
	_, err = p.in.Write(b.Bytes())
	return err
}

func (p *pipe) close() {
	p.in.Close()
	p.cancel()
	for range p.answers { // until read has ended
	}
	p.command.Wait()
}

// tail keeps the end of what a program prints.
type tail struct{ text []byte }

// Write implements io.Writer.
func (t *tail) Write(b []byte) (int, error) {
	t.text = append(t.text, b...)
	t.text = t.text[max(0, len(t.text)-4096):]
	return len(b), nil
}

// last returns the last lines.
func (t *tail) last() string {
	lines := strings.Split(strings.TrimSpace(string(t.text)), "\n")
	if text := strings.Join(lines[max(0, len(lines)-3):], "\n  "); text != "" {
		return ":\n  " + text
	}
	return ""
}
