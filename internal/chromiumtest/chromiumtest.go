// Package chromiumtest opens pages in Debian's Chromium for tests, which read the page's text, press its keys and read its console.
package chromiumtest

import (
	"bytes"
	"context"
	_ "embed" // the check of Accessible
	"fmt"
	"image/color"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// Tab is a browser tab that closes at the end of the test.
type Tab struct {
	t   *testing.T
	ctx context.Context

	mu   sync.Mutex
	said []string
}

// longest limits a test's use of a tab, and patience the wait of Becomes.
const (
	longest  = 10 * time.Minute
	patience = time.Minute
)

// Open returns a tab of the Chromium in .cache/chromium, or else of the one in PATH. Without one the test is skipped.
func Open(t *testing.T) *Tab {
	t.Helper()
	program := filepath.Join(root(t), ".cache", "chromium", "chromium.sh")
	if _, err := os.Stat(program); err != nil {
		if program, err = exec.LookPath("chromium"); err != nil {
			t.Skip("no Chromium; make chromium unpacks Debian's")
		}
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(program), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.Flag("enable-blink-features", "ComputedAccessibilityInfo")) // for Accessible
	ctx, cancel := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(cancel)
	ctx, cancel = context.WithTimeout(ctx, longest)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	b := &Tab{t: t, ctx: ctx}
	err := chromedp.Listen(ctx, func(event any) {
		switch e := event.(type) {
		case *log.EventEntryAdded:
			b.add(e.Entry.Text)
		case *runtime.EventExceptionThrown:
			b.add(fmt.Sprintf("%+v", e.ExceptionDetails))
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// root is the folder of the module.
func root(t *testing.T) string {
	t.Helper()
	for dir, err := os.Getwd(); err == nil && dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
	}
	t.Fatal("no go.mod above the test's folder")
	return ""
}

func (b *Tab) add(line string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.said = append(b.said, line)
}

// Said returns the console's messages, such as exceptions and violations of the page's policy.
func (b *Tab) Said() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.said)
}

// Do runs the steps, and fails the test at the first that fails.
func (b *Tab) Do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, steps...); err != nil {
		b.t.Fatal(err)
	}
}

// Value returns the value of an expression in the page.
func Value[T any](b *Tab, expression string) T {
	b.t.Helper()
	v, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		b.t.Fatalf("%s: %v", expression, err)
	}
	return v
}

// Becomes waits until an expression in the page is true.
func (b *Tab) Becomes(expression string) {
	b.t.Helper()
	for end := time.Now().Add(patience); !Value[bool](b, expression); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			b.t.Fatalf("never: %s\n%s", expression, Value[string](b, `document.body.innerText`))
		}
	}
}

// Picture takes a picture of the whole page. It returns the brightness, 0 to 1, and the number of colours. If the variable SHOTS names a
// folder, the picture stays there for people to look at.
func (b *Tab) Picture(name string) (brightness float64, colours int) {
	b.t.Helper()
	text, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
	if err != nil {
		b.t.Fatal(err)
	}
	if to := os.Getenv("SHOTS"); to != "" {
		if err := os.WriteFile(filepath.Join(to, name+".png"), text, 0o600); err != nil {
			b.t.Fatal(err)
		}
	}
	picture, err := png.Decode(bytes.NewReader(text))
	if err != nil {
		b.t.Fatal(err)
	}
	seen, sum, n := map[color.Color]bool{}, 0.0, 0
	for y := picture.Bounds().Min.Y; y < picture.Bounds().Max.Y; y += 3 {
		for x := picture.Bounds().Min.X; x < picture.Bounds().Max.X; x += 3 {
			at := picture.At(x, y)
			seen[at] = true
			sum += float64(color.Gray16Model.Convert(at).(color.Gray16).Y) / 0xffff
			n++
		}
	}
	return sum / float64(max(n, 1)), len(seen)
}

//go:embed access.js
var access string

// Accessible fails the test for each control or picture of the page without an accessible name, and for text whose contrast is below 4.5,
// in light and in dark. Hidden parts are not checked.
func (b *Tab) Accessible() {
	b.t.Helper()
	for _, scheme := range []string{"light", "dark"} {
		b.Scheme(scheme)
		at := Value[string](b, `location.hash`)
		for _, fault := range Value[[]string](b, access) {
			b.t.Errorf("%s%s: %s", scheme, at, fault)
		}
	}
}

// Scheme makes the browser prefer light or dark pages.
func (b *Tab) Scheme(name string) {
	b.t.Helper()
	b.Do(chromedp.Func(func(ctx context.Context, tab *chromedp.Target) error {
		_, err := cdp.Call(ctx, tab, emulation.SetEmulatedMedia,
			emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}}})
		return err
	}))
}
