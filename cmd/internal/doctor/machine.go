package doctor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"gnnsched/internal/cli"
	"gnnsched/internal/exit"
)

// machine answers the checks' questions about the machine. Tests replace it.
type machine struct {
	find   func(program string) (path string, err error)
	run    func(ctx context.Context, program string, args ...string) (output string, err error)
	listen func(address string) error
	free   func(folder string) (bytes uint64, err error)
}

// programTimeout is the time that a program has to answer.
const programTimeout = 20 * time.Second

// thisMachine returns the machine that this program runs on.
func thisMachine() machine {
	return machine{find: cli.FindProgram, run: output, listen: listen, free: free}
}

// output returns a program's output, including its standard error.
func output(ctx context.Context, program string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, programTimeout)
	defer cancel()
	text, err := exec.CommandContext(ctx, program, args...).CombinedOutput()
	return strings.TrimSpace(string(text)), err
}

// listen returns an error if an address cannot be listened on.
func listen(address string) error {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	return l.Close()
}

// free returns the free bytes of a user in the file system of a folder, or of its nearest existing parent.
func free(folder string) (uint64, error) {
	for {
		var s unix.Statfs_t
		err := unix.Statfs(folder, &s)
		if err == nil {
			return s.Bavail * uint64(s.Bsize), nil
		}
		parent := filepath.Dir(folder)
		if !errors.Is(err, os.ErrNotExist) || parent == folder {
			return 0, err
		}
		folder = parent
	}
}

// port checks that a port of loopback is free.
func (x *examination) port(command, port string) {
	f := finding{what: command + " port", detail: "127.0.0.1:" + port + " is free", code: exit.Usage}
	if err := x.machine.listen("127.0.0.1:" + port); err != nil {
		f.detail = fmt.Sprintf("127.0.0.1:%s: %v", port, err)
		f.hint = "another " + command + " may run; stop it, or choose another port with --port"
		f.state = x.lacking(command)
	}
	x.add(f)
}

// disk checks that there is room for data and logs.
func (x *examination) disk(command, folder string, want uint64) {
	f := finding{what: command + " disk", code: exit.Usage}
	n, err := x.machine.free(folder)
	switch {
	case err != nil:
		f.detail, f.hint, f.state = err.Error(), "choose another folder", x.lacking(command)
	case n < want:
		f.detail = fmt.Sprintf("%s free in %s, want %s", size(n), folder, size(want))
		f.hint, f.state = "make room, or choose another folder", x.lacking(command)
	default:
		f.detail = fmt.Sprintf("more than %s free in %s", size(want), folder)
	}
	x.add(f)
}

func size(n uint64) string { return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30)) }

// program checks that a program is there and starts, which one without its libraries does not.
func (x *examination) program(ctx context.Context, command, hint string, line ...string) {
	words := line[:max(1, slices.IndexFunc(line, func(w string) bool { return strings.HasPrefix(w, "-") }))]
	f := finding{what: strings.Join(words, " "), code: exit.Usage}
	path, err := x.machine.find(line[0])
	if err != nil {
		f.detail, f.hint, f.state = "there is no "+line[0]+" beside this program or in PATH", hint, x.lacking(command)
		x.add(f)
		return
	}
	text, err := x.machine.run(ctx, path, line[1:]...)
	first, _, _ := strings.Cut(text, "\n")
	if f.detail = first; err != nil {
		f.detail, f.hint, f.state = fmt.Sprintf("%s: %v: %s", path, err, first), hint, x.lacking(command)
	}
	x.add(f)
}
