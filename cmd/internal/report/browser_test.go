package report

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// browser returns a tab of Debian's Chromium, of .cache/chromium or of PATH. Without one the test is skipped. The
// tab collects what the console says, such as violations of the page's policy.
func browser(t *testing.T) (ctx context.Context, _ *console) {
	t.Helper()
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(root, ".cache", "chromium", "chromium.sh")
	if _, err := os.Stat(program); err != nil {
		if program, err = exec.LookPath("chromium"); err != nil {
			t.Skip("no Chromium; make chromium unpacks Debian's")
		}
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(program), chromedp.NoSandbox, chromedp.DisableGPU)
	ctx, cancel := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(cancel)
	ctx, cancel = context.WithTimeout(ctx, 2*time.Minute)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	c := &console{}
	err = chromedp.Listen(ctx, func(event any) {
		switch e := event.(type) {
		case *log.EventEntryAdded:
			c.add(e.Entry.Text)
		case *runtime.EventExceptionThrown:
			c.add(fmt.Sprintf("%+v", e.ExceptionDetails))
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return ctx, c
}

// console collects what the browser's console says.
type console struct {
	mu    sync.Mutex
	lines []string
}

func (c *console) add(line string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lines = append(c.lines, line)
}

// evaluate returns the value of an expression in the page.
func evaluate[T any](t *testing.T, ctx context.Context, expression string) T {
	t.Helper()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		t.Fatalf("%s: %v", expression, err)
	}
	return v
}

func do(t *testing.T, ctx context.Context, steps ...chromedp.Action[chromedp.Void]) {
	t.Helper()
	if err := chromedp.Do(ctx, steps...); err != nil {
		t.Fatal(err)
	}
}

// address writes the page of runs to a file and returns its address.
func address(t *testing.T, text []byte) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "page.html")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return "file://" + file
}

// In a browser, the page shows its pictures, the keyboard moves the slider, the search finds, and no name of a
// pod, node or policy runs as a script.
func TestInChromium(t *testing.T) {
	ctx, said := browser(t)
	text, err := render(config{version: "v1", command: "gnnsched report"}, runsOfTest())
	if err != nil {
		t.Fatal(err)
	}
	do(t, ctx, chromedp.EmulateViewport(1200, 900), chromedp.Navigate(address(t, text)), chromedp.WaitVisible(chromedp.CSS(".controls")))
	if evaluate[bool](t, ctx, `window.pwned === true || document.querySelector("img[src='x'], script[src]") !== null`) {
		t.Error("a name ran as a script")
	}
	if !evaluate[bool](t, ctx, `Array.from(document.querySelectorAll(".film-image")).every((i) => i.naturalWidth > 0)`) {
		t.Error("a picture is not there")
	}
	const now = `document.querySelector(".now").textContent`
	before := evaluate[string](t, ctx, now)
	do(t, ctx, chromedp.Focus(chromedp.CSS(".time")), chromedp.KeyEvent(kb.Home), chromedp.KeyEvent(kb.ArrowRight))
	after, label := evaluate[string](t, ctx, now), evaluate[string](t, ctx, `document.querySelector(".time").getAttribute("aria-valuetext")`)
	if before != "20" || after != "10" || label != "10 seconds" {
		t.Errorf("the slider began at %s; Home and an arrow led to %s, %q", before, after, label)
	}
	if pixel := evaluate[string](t, ctx, `String(document.querySelector(".nodes").getContext("2d").getImageData(2, 2, 1, 1).data)`); pixel == "0,0,0,0" {
		t.Error("the nodes at a time are not painted")
	}
	do(t, ctx, chromedp.SendKeys(chromedp.CSS(".search input"), "pod-2 node-1"))
	if found := evaluate[string](t, ctx, `document.querySelector(".search output").textContent + ", hidden " + document.querySelectorAll(".decisions tbody tr[hidden]").length`); found != "1 of 3, hidden 2" {
		t.Errorf("the search found %q", found)
	}
	do(t, ctx, chromedp.EmulateViewport(360, 740))
	if wide := evaluate[int](t, ctx, `document.documentElement.scrollWidth`); wide > 360 {
		t.Errorf("the page is %d wide on a phone of 360", wide)
	}
	said.mu.Lock()
	defer said.mu.Unlock()
	if len(said.lines) > 0 {
		t.Errorf("the console says: %s", strings.Join(said.lines, "; "))
	}
}

// The browser refuses a script that is not the page's own: the policy works, and the test above would see it.
func TestPolicyInChromium(t *testing.T) {
	ctx, said := browser(t)
	text, err := render(config{}, runsOfTest())
	if err != nil {
		t.Fatal(err)
	}
	smuggled := strings.Replace(string(text), "<main>", `<main><script>window.pwned = true</script><img src="https://example.com/x.png" onerror="window.pwned = true">`, 1)
	do(t, ctx, chromedp.Navigate(address(t, []byte(smuggled))), chromedp.WaitVisible(chromedp.CSS(".controls")))
	if evaluate[bool](t, ctx, `window.pwned === true`) {
		t.Error("a smuggled script ran")
	}
	said.mu.Lock()
	defer said.mu.Unlock()
	if !strings.Contains(strings.Join(said.lines, "\n"), "Content Security Policy") {
		t.Errorf("the console says nothing of the policy: %q", said.lines)
	}
}

// TestScreenshots writes pictures of the page that REPORT_PAGE names into the folder REPORT_SHOTS, for people to look at.
func TestScreenshots(t *testing.T) {
	page, to := os.Getenv("REPORT_PAGE"), os.Getenv("REPORT_SHOTS")
	if page == "" || to == "" {
		t.Skip("REPORT_PAGE and REPORT_SHOTS name a page and a folder")
	}
	ctx, _ := browser(t)
	for _, shot := range []struct {
		name, scheme string
		width        int64
	}{{"wide-light", "light", 1200}, {"wide-dark", "dark", 1200}, {"narrow-light", "light", 390}, {"narrow-dark", "dark", 390}} {
		do(t, ctx, chromedp.Func(func(ctx context.Context, tab *chromedp.Target) error {
			_, err := cdp.Call(ctx, tab, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: shot.scheme}}})
			return err
		}), chromedp.EmulateViewport(shot.width, 900), chromedp.Navigate("file://"+page), chromedp.WaitReady(chromedp.CSS("body")))
		png, err := chromedp.Run(ctx, chromedp.FullScreenshot(100))
		if err == nil {
			err = os.WriteFile(filepath.Join(to, shot.name+".png"), png, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
