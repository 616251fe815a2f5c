package chromiumtest

import (
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// Accessible finds the faults of the page, and nothing else.
func TestAccess(t *testing.T) {
	const page = `<!doctype html><meta name="color-scheme" content="light dark">
		<style>
			:root { color-scheme: light dark; background: #fff } .pale { color: #999 } .faint { opacity: .4 } .panel { background: #333; color: #444 }
			@media (prefers-color-scheme: dark) { :root { background: #111 } .pale { color: #bbb } .night { color: #333 } }
			::placeholder { color: #ccc }
		</style>
		<p class="pale">pale</p><p class="faint">faint</p><p class="night">night</p><div class="panel"><b>on a panel</b></div><p>plain</p>
		<svg class="bare" width="9" height="9"><text y="9" class="pale" fill="#eee">chart</text></svg>
		<svg role="img" aria-label="a chart" width="9" height="9"></svg>
		<svg aria-hidden="true" width="9" height="9"></svg>
		<canvas class="bare"></canvas><canvas role="img" aria-label="nodes"></canvas>
		<img class="bare" width="9" height="9" src="data:,"><img alt="a film" width="9" height="9" src="data:,">
		<button class="bare"></button><button>Play</button><button disabled class="faint">not now</button>
		<input class="bare" value="x"><label>Search <input placeholder="pod"></label>
		<label for="kind">Kind</label><select id="kind"><option>CPU</select><select class="bare"><option>CPU</select>
		<div hidden><button></button><p class="pale">hidden</p></div>`
	tab := Open(t)
	tab.Do(chromedp.EmulateViewport(800, 600), chromedp.Navigate("data:text/html,"+url.PathEscape(page)))
	want := []string{
		"button.bare has no name", "canvas.bare has no name", "img.bare has no name", "input.bare has no name", "select.bare has no name",
		"svg.bare has no name",
		`b "on a panel" has a contrast of 1.30`, `input "pod" has a contrast of 1.61`, `p.faint "faint" has a contrast of 2.85`,
		`p.pale "pale" has a contrast of 2.85`, `text.pale "chart" has a contrast of 1.16`,
	}
	tab.Scheme("light")
	got := Value[[]string](tab, access)
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("light: %q, want %q", got, want)
	}
	tab.Scheme("dark")
	if got := Value[[]string](tab, access); !slices.Contains(got, `p.night "night" has a contrast of 1.49`) ||
		slices.ContainsFunc(got, func(f string) bool { return strings.HasPrefix(f, "p.pale") }) {
		t.Errorf("dark: %q", got)
	}
}
