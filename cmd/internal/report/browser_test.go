package report

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"gnnsched/internal/chromiumtest"
	"gnnsched/internal/fatal"
)

// address writes the page to a file and returns its address.
func address(t *testing.T, text []byte) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "page.html")
	fatal.If(t, os.WriteFile(file, text, 0o600))
	return "file://" + file
}

// In a browser, the page shows its pictures, the keyboard moves the slider, the search finds, and no name of a pod, node or policy runs as a
// script. Every control and picture has a name, and text stands out in light and in dark. The page looks as the reader prefers, and fits a
// phone. The browser refuses a script that is not the page's own.
func TestInChromium(t *testing.T) {
	tab := chromiumtest.Open(t)
	text := fatal.Value(render(runOfTest()))(t)
	page := address(t, text)
	tab.Do(chromedp.EmulateViewport(1200, 900), chromedp.Navigate(page), chromedp.WaitVisible(chromedp.CSS(".controls")))
	if chromiumtest.Value[bool](tab, `window.pwned === true || document.querySelector("img[src='x'], script[src]") !== null`) {
		t.Error("a name ran as a script")
	}
	if !chromiumtest.Value[bool](tab, `Array.from(document.querySelectorAll(".film-image")).every((i) => i.naturalWidth > 0)`) {
		t.Error("a picture is not there")
	}
	const now = `document.querySelector(".now").textContent`
	before := chromiumtest.Value[string](tab, now)
	tab.Do(chromedp.Focus(chromedp.CSS(".time")), chromedp.KeyEvent(kb.Home), chromedp.KeyEvent(kb.ArrowRight))
	after, label := chromiumtest.Value[string](tab, now),
		chromiumtest.Value[string](tab, `document.querySelector(".time").getAttribute("aria-valuetext")`)
	if before != "20" || after != "10" || label != "10 seconds" {
		t.Errorf("the slider began at %s; Home and an arrow led to %s, %q", before, after, label)
	}
	if pixel := chromiumtest.Value[string](tab,
		`String(document.querySelector(".nodes").getContext("2d").getImageData(2, 2, 1, 1).data)`); pixel == "0,0,0,0" {
		t.Error("the nodes at a time are not painted")
	}
	tab.Do(chromedp.SendKeys(chromedp.CSS(".search input"), "pod-2 node-1"))
	if found := chromiumtest.Value[string](tab,
		`document.querySelector(".search output").textContent + ", hidden " + document.querySelectorAll(".decisions tbody tr[hidden]").length`); found != "1 of 3, hidden 2" {
		t.Errorf("the search found %q", found)
	}
	tab.Do(chromedp.Evaluate[chromedp.Void](`document.querySelectorAll("details").forEach((d) => { d.open = true; })`))
	tab.Accessible()
	tab.Do(chromedp.EmulateViewport(360, 740))
	if wide := chromiumtest.Value[int](tab, `document.documentElement.scrollWidth`); wide > 360 {
		t.Errorf("the page is %d wide on a phone of 360", wide)
	}
	if said := tab.Said(); len(said) > 0 {
		t.Errorf("the console says: %s", strings.Join(said, "; "))
	}
	looks(t, tab, page)
	refuses(t, tab, text)
}

// refuses checks that the page's policy keeps a foreign script from running, and that the test above would see one.
func refuses(t *testing.T, tab *chromiumtest.Tab, text []byte) {
	t.Helper()
	smuggled := strings.Replace(string(text), "<main>",
		`<main><script>window.pwned = true</script><img src="https://example.com/x.png" onerror="window.pwned = true">`, 1)
	tab.Do(chromedp.Navigate(address(t, []byte(smuggled))), chromedp.WaitVisible(chromedp.CSS(".controls")))
	if chromiumtest.Value[bool](tab, `window.pwned === true`) {
		t.Error("a smuggled script ran")
	}
	if said := tab.Said(); !strings.Contains(strings.Join(said, "\n"), "Content Security Policy") {
		t.Errorf("the console says nothing of the policy: %q", said)
	}
}

// looks checks the brightness and colours of the page, light and dark, on two widths.
func looks(t *testing.T, tab *chromiumtest.Tab, page string) {
	t.Helper()
	for _, width := range []int64{1200, 390} {
		for _, scheme := range []string{"light", "dark"} {
			tab.Scheme(scheme)
			tab.Do(chromedp.EmulateViewport(width, 900), chromedp.Navigate(page), chromedp.WaitReady(chromedp.CSS("body")))
			bright, colours := tab.Picture(fmt.Sprintf("report-%d-%s", width, scheme))
			if (scheme == "light") != (bright > 0.5) || colours < 20 {
				t.Errorf("%s, %d wide: the brightness is %.2f, with %d colours", scheme, width, bright, colours)
			}
		}
	}
}
