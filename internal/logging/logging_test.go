package logging

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"k8s.io/klog/v2"
	"pgregory.net/rapid"

	"gnnsched/internal/exit"
	"gnnsched/internal/fatal"
)

func TestSetupWritesFileAndBridgesKlog(t *testing.T) {
	dir := t.TempDir()
	var stderr bytes.Buffer
	log, closer, err := Setup(Config{Component: "unit", Dir: dir, Level: "info", Stderr: &stderr, NoColor: true})
	fatal.If(t, err)
	log.Info().Int("pods", 3).Msg("hello")
	klog.ErrorS(errors.New("boom"), "from klog")
	klog.InfoS("chatter")
	framework := klog.LoggerWithValues(klog.LoggerWithName(klog.Background(), "framework"), "profile", "gnn")
	framework.Info("chatter")
	klog.LoggerWithName(framework, ProjectLogger).Info("Network loaded")
	klog.Flush()
	fatal.If(t, closer.Close())
	b := fatal.Value(os.ReadFile(filepath.Join(dir, "unit.log")))(t)
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	if len(lines) != 3 {
		t.Fatalf("want the zerolog line, klog's error and the project's klog line, got %d lines:\n%s", len(lines), b)
	}
	for _, l := range lines {
		var m map[string]any
		if err := json.Unmarshal([]byte(l), &m); err != nil {
			t.Fatalf("not a JSON line: %q", l)
		}
		if m["component"] != "unit" {
			t.Errorf("component missing in %q", l)
		}
	}
	if !strings.Contains(lines[2], `"profile":"gnn"`) || !strings.Contains(lines[2], "Network loaded") ||
		strings.Contains(lines[2], "kubernetes") {
		t.Errorf("not logged as the project's own: %q", lines[2])
	}
	if !strings.Contains(lines[1], `"source":"kubernetes"`) || !strings.Contains(stderr.String(), "hello") {
		t.Errorf("bridge or console missing: %q, stderr %q", lines[1], stderr.String())
	}
}

// A process may set up its logger again while goroutines log: run with the race detector.
func TestSetupAgain(t *testing.T) {
	var stop atomic.Bool
	var ended sync.WaitGroup
	ended.Go(func() {
		for !stop.Load() {
			klog.ErrorS(nil, "busy")
		}
	})
	defer func() {
		stop.Store(true)
		ended.Wait() // before the files go
	}()
	for _, want := range []string{"first", "second"} {
		dir := t.TempDir()
		_, closer, err := Setup(Config{Component: "unit", Dir: dir, Level: "info", Quiet: true})
		fatal.If(t, err)
		t.Cleanup(func() { closer.Close() })
		klog.ErrorS(nil, want)
		DropKlog()
		klog.ErrorS(nil, "dropped")
		b, err := os.ReadFile(filepath.Join(dir, "unit.log"))
		if err != nil || !strings.Contains(string(b), want) || strings.Contains(string(b), "dropped") {
			t.Errorf("%v: the log is %.300q, want a line with %q and none that was dropped", err, b, want)
		}
	}
}

// If the default directory cannot be written, there is no file, and one warning. A newly made directory is named.
func TestSetupWithoutPlace(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a-file")
	fatal.If(t, os.WriteFile(file, nil, 0o600))
	made := filepath.Join(t.TempDir(), "logs")
	for _, c := range []struct{ dir, want string }{
		{filepath.Join(file, "logs"), "no log file"},
		{made, "made the directory of the log file"},
		{made, ""}, // it is there now
		{"", ""},
	} {
		var stderr bytes.Buffer
		log, closer, err := Setup(Config{Component: "unit", Dir: c.dir, Optional: true, Level: "info", Stderr: &stderr, NoColor: true})
		fatal.If(t, err)
		log.Info().Msg("hello")
		fatal.If(t, closer.Close())
		lines := 1
		if c.want != "" {
			lines = 2
		}
		if out := stderr.String(); strings.Count(out, "\n") != lines || !strings.Contains(out, c.want) || !strings.Contains(out, "hello") {
			t.Errorf("%s: %q, want %q", c.dir, out, c.want)
		}
	}
}

func TestSetupRejects(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a-file")
	fatal.If(t, os.WriteFile(file, nil, 0o600))
	for _, c := range []Config{{Level: "loud"}, {}, {Level: "info", Component: "x", Dir: filepath.Join(file, "logs")}} {
		if _, _, err := Setup(c); exit.Code(err) != exit.Usage {
			t.Errorf("%+v: got %v, want a usage error", c, err)
		}
	}
}

// The log files of a process take bounded space, however much it logs.
func TestLogRotates(t *testing.T) {
	dir := t.TempDir()
	f := fatal.Value(openFile(dir, "unit"))(t)
	line := bytes.Repeat([]byte("x"), 1<<20)
	const megabytes = maxMegabytes * (maxBackups + 3)
	for range megabytes {
		fatal.Value(f.Write(line))(t)
	}
	fatal.If(t, f.Close())
	if i, err := os.Stat(filepath.Join(dir, "unit.log")); err != nil || i.Size() > maxMegabytes<<20 || i.Mode().Perm() != 0o600 {
		t.Errorf("the current file: %+v, %v", i, err)
	}
	// The oldest files are deleted in the background.
	for try := 0; ; try++ {
		files := fatal.Value(filepath.Glob(filepath.Join(dir, "unit*.log")))(t)
		if len(files) == maxBackups+1 {
			return
		}
		if try == 500 {
			t.Fatalf("the files are %v, want %d", files, maxBackups+1)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func TestUTF8(t *testing.T) {
	for _, c := range []struct {
		env  []string
		want bool
	}{
		{nil, false},
		{[]string{"LANG=en_GB.UTF-8"}, true},
		{[]string{"LANG=de_DE.utf8"}, true},
		{[]string{"LANG=en_GB.UTF-8", "LC_ALL=C"}, false},
		{[]string{"LANG=en_GB.UTF-8", "LC_ALL="}, true},
		{[]string{"LANG=C", "LC_CTYPE=C.UTF-8"}, true},
		{[]string{"LC_ALL=C.UTF-8", "LC_ALL=POSIX"}, false},
	} {
		if got := UTF8(c.env); got != c.want {
			t.Errorf("%v: %v", c.env, got)
		}
	}
}

func TestASCII(t *testing.T) {
	for in, want := range map[string]string{
		"62% → 88%":                       "62% ->88%",
		"starting a cluster …\nvaliant…x": "starting a cluster ...\nvaliant~x",
		"a text…":                         "a text...",
		"│ 202 µs │ 1 · 2":                "| 202 us | 1 | 2",
		"naïve 世界":                        "naïve 世界",
	} {
		if got := ASCII(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

// However a text is split into writes, what arrives is the whole text without the programs' signs, and text of others is kept.
func TestWriterSplit(t *testing.T) {
	t.Setenv("LC_ALL", "C")
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOf(rapid.SampledFrom([]rune("ab é世─│━▁µ"))).Draw(t, "text")
		f := fatal.Value(os.Create(filepath.Join(dir, "f")))(t)
		w := Writer(f)
		for rest := []byte(text); len(rest) > 0; {
			cut := rapid.IntRange(1, len(rest)).Draw(t, "cut")
			if wrote, err := w.Write(rest[:cut]); err != nil || wrote != cut {
				t.Fatal(wrote, err)
			}
			rest = rest[cut:]
		}
		f.Close()
		got := fatal.Value(os.ReadFile(f.Name()))(t)
		if string(got) != ASCII(text) || strings.ContainsAny(string(got), "─│━▁µ") || utf8.RuneCount(got) != utf8.RuneCountInString(text) {
			t.Fatalf("%q became %q", text, got)
		}
	})
}

func TestWriterInUTF8(t *testing.T) {
	t.Setenv("LC_ALL", "C.UTF-8")
	if Writer(os.Stdout) != os.Stdout {
		t.Error("the file is wrapped in a UTF-8 locale")
	}
}
