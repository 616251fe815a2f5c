package main

import (
	"bytes"
	"cmp"
	"context"
	"image"
	"image/color"
	"image/gif"
	"image/png"
	"log"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/chromedp/chromedp"
)

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
