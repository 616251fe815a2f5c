// Film draws frames of ktop's view, from a cluster that runs, as one SVG that moves, or of a page in Chromium as one GIF. docs/film.sh
// makes README's pictures with it.
package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"html"
	"image"
	"image/color"
	"image/gif"
	"image/png"
	"log"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/chromedp/chromedp"

	"gnnsched/cmd/internal/top/state"
	"gnnsched/cmd/internal/top/view"
	"gnnsched/internal/kubeconfig"
)

// The film: frames of so many characters, one taken every pause and shown for shown seconds. After half of them the view draws its map.
const (
	columns, lines = 100, 22
	frames         = 24
	pause          = 3 * time.Second
	shown          = 0.7
	wide, high     = 8.4, 18 // of a character, in pixels
)

func main() {
	log.SetFlags(0)
	switch len(os.Args) {
	case 2:
	case 3:
		filmPage(os.Args[1], os.Args[2])
		return
	default:
		log.Fatal("usage: film KUBECONFIG >film.svg, or film CHROMIUM LINK >page.gif")
	}
	client, _, err := kubeconfig.Target{Kubeconfig: os.Args[1]}.Connect(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	source, err := state.Start(context.Background(), state.Config{Client: client})
	if err != nil {
		log.Fatal(err)
	}
	defer source.Stop()
	m := view.New(view.Config{Title: "gnnsched try", Look: view.Look{Color: true, Unicode: true}, Read: source.Frame, Details: source.Details})
	m.Update(tea.WindowSizeMsg{Width: columns, Height: lines})
	f := film{known: map[string]int{}}
	for i := range frames {
		if i == frames/2 {
			m.Update(tea.KeyPressMsg{Code: 'm', Text: "m"})
		}
		m.Update(m.Init()())
		f.add(m.View().Content)
		time.Sleep(pause)
	}
	fmt.Print(f.svg())
}

// film holds frames as lists of lines. Equal lines are drawn once.
type film struct {
	lines  []string       // drawn
	known  map[string]int // their places in lines
	frames [][]int
}

// add adds a frame, text with ANSI's sequences for colours.
func (f *film) add(screen string) {
	var frame []int
	for line := range strings.SplitSeq(screen, "\n") {
		drawn := draw(line)
		if _, is := f.known[drawn]; !is {
			f.known[drawn] = len(f.lines)
			f.lines = append(f.lines, drawn)
		}
		frame = append(frame, f.known[drawn])
	}
	f.frames = append(f.frames, frame)
}

// svg returns the picture. Without animation it shows the last frame.
func (f *film) svg() string {
	var b strings.Builder
	width, height := columns*wide+16, float64(lines*high+16)
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" font-family="DejaVu Sans Mono,Menlo,Consolas,monospace" font-size="14">`+
		`<title>ktop during gnnsched try</title><style>%s</style><rect width="100%%" height="100%%" rx="6" fill="#16181d"/><defs>`, width, height, css)
	for i, l := range f.lines {
		fmt.Fprintf(&b, "<g id=\"l%d\">%s</g>\n", i, l)
	}
	b.WriteString("</defs>")
	n := len(f.frames)
	for i, frame := range f.frames {
		display := "none"
		if i == n-1 {
			display = "inline"
		}
		fmt.Fprintf(&b, `<g display="%s"><animate attributeName="display" calcMode="discrete" repeatCount="indefinite" dur="%.1fs" values="none;inline;none" keyTimes="0;%.4f;%.4f"/>`,
			display, shown*float64(n), float64(i)/float64(n), float64(i+1)/float64(n))
		for y, l := range frame {
			fmt.Fprintf(&b, `<use href="#l%d" x="8" y="%d"/>`, l, 8+y*high)
		}
		b.WriteString("</g>\n")
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// draw draws a line of text with ANSI's sequences, whose numbers become classes of css. Reversed text stands on a box.
func draw(line string) string {
	var b strings.Builder
	x, now := 0, ""
	for part := range strings.SplitSeq("\x1b[m"+line, "\x1b[") {
		numbers, text, _ := strings.Cut(part, "m")
		if now += " s" + strings.ReplaceAll(numbers, ";", " s"); numbers == "" {
			now = ""
		}
		width := float64(ansi.StringWidth(text)) * wide
		if slices.Contains(strings.Fields(now), "s7") {
			fmt.Fprintf(&b, `<rect x="%.1f" width="%.1f" height="%d" fill="#c8ccd4"/>`, float64(x)*wide, width, high)
		}
		if strings.TrimSpace(text) != "" {
			fmt.Fprintf(&b, `<text x="%.1f" y="14" textLength="%.1f" class="%s" xml:space="preserve">%s</text>`,
				float64(x)*wide, width, strings.TrimSpace(now), html.EscapeString(text))
		}
		x += ansi.StringWidth(text)
	}
	return b.String()
}

// css has the styles that the view uses.
const css = `text{fill:#c8ccd4}.s1{font-weight:bold}.s2{opacity:.6}.s31{fill:#e06c75}.s32{fill:#98c379}.s33{fill:#e5c07b}.s36{fill:#56b6c2}` +
	`.s7{fill:#16181d}`

// The film of a page takes as long as that of ktop. The last picture stays longer.
const (
	pictures   = 12
	between    = frames * pause / pictures
	centis     = 140 // hundredths of a second for which a picture is shown
	lastCentis = 500
)

// filmPage writes pictures of a page, as one GIF.
func filmPage(program, link string) {
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(program), chromedp.NoSandbox, chromedp.DisableGPU)
	ctx, cancel := chromedp.NewExecAllocator(context.Background(), options...)
	defer cancel()
	ctx, cancel = chromedp.NewContext(ctx)
	defer cancel()
	if err := chromedp.Do(ctx, chromedp.EmulateViewport(1000, 640), chromedp.Navigate(link)); err != nil {
		log.Fatal(err)
	}
	var taken []image.Image
	for range pictures {
		time.Sleep(between)
		shot, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
		if err != nil {
			log.Fatal(err)
		}
		p, err := png.Decode(bytes.NewReader(shot))
		if err != nil {
			log.Fatal(err)
		}
		taken = append(taken, p)
	}
	if err := gif.EncodeAll(os.Stdout, moving(taken)); err != nil {
		log.Fatal(err)
	}
}

// moving joins pictures of equal size. Each has what differs from the one before; the rest is transparent.
func moving(taken []image.Image) *gif.GIF {
	palette, nearest := paletteOf(taken), map[color.Color]uint8{}
	out := &gif.GIF{}
	var before *image.Paletted
	for i, p := range taken {
		now, changed := image.NewPaletted(p.Bounds(), palette), image.NewPaletted(p.Bounds(), palette)
		for y := p.Bounds().Min.Y; y < p.Bounds().Max.Y; y++ {
			for x := p.Bounds().Min.X; x < p.Bounds().Max.X; x++ {
				c := p.At(x, y)
				at, known := nearest[c]
				if !known {
					at = uint8(1 + palette[1:].Index(c))
					nearest[c] = at
				}
				now.SetColorIndex(x, y, at)
				if before == nil || before.ColorIndexAt(x, y) != at {
					changed.SetColorIndex(x, y, at)
				}
			}
		}
		delay := centis
		if i == len(taken)-1 {
			delay = lastCentis
		}
		out.Image, out.Delay = append(out.Image, changed), append(out.Delay, delay)
		before = now
	}
	return out
}

// paletteOf returns transparent and the 255 most frequent colours.
func paletteOf(taken []image.Image) color.Palette {
	count := map[color.Color]int{}
	for _, p := range taken {
		for y := p.Bounds().Min.Y; y < p.Bounds().Max.Y; y++ {
			for x := p.Bounds().Min.X; x < p.Bounds().Max.X; x++ {
				count[p.At(x, y)]++
			}
		}
	}
	all := slices.SortedFunc(maps.Keys(count), func(a, b color.Color) int { return cmp.Compare(count[b], count[a]) })
	return append(color.Palette{color.Transparent}, all[:min(len(all), 255)]...)
}
