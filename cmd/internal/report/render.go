package report

import (
	"bytes"
	"crypto/sha256"
	_ "embed" // the page's parts
	"encoding/base64"
	"fmt"
	"html/template"
	"math"
	"runtime"
	"strconv"
	"strings"
)

//go:embed page.html
var markup string

//go:embed style.css
var style string

//go:embed script.js
var script string

var platform = fmt.Sprintf("%s %s/%s, %d CPUs", runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU())

// maxPage is the number of bytes that a page may have.
const maxPage = 3_000_000

var layout = template.Must(template.New("page").Funcs(template.FuncMap{
	"short":     short,
	"score":     score,
	"scale":     scaleBars,
	"multiline": func(s string) bool { return strings.Contains(s, "\n") },
}).Parse(markup))

// score formats a score of any size.
func score(v float64) string {
	if math.Abs(v) >= 1e6 {
		return strconv.FormatFloat(v, 'g', 4, 64)
	}
	return strings.TrimSuffix(strings.TrimRight(number(v, 4), "0"), ".")
}

// scaleBars draws the colours of the heat maps from 0 to 100 %.
func scaleBars() template.HTML {
	var b strings.Builder
	colors := palette()
	for i := range 50 {
		r, g, bl, _ := colors[i].RGBA()
		fmt.Fprintf(&b, `<rect x="%d" y="0" width="2.1" height="8" fill="#%02x%02x%02x"/>`, 2*i, r>>8, g>>8, bl>>8)
	}
	return template.HTML(b.String())
}

// policy allows the page's own style and script, by their hashes, and pictures in data URLs.
func policy() string {
	hash := func(text string) string {
		sum := sha256.Sum256([]byte(text))
		return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
	}
	return "default-src 'none'; script-src " + hash(script) + "; style-src " + hash(style) +
		"; img-src data:; base-uri 'none'; form-action 'none'"
}

// render returns the page of a run. It thins out more and more until the page has at most maxPage bytes.
func render(r Run) ([]byte, error) {
	// html/template would escape a style that closes its element; these are parts of the program.
	p := page{Run: r, CSP: policy(), Style: template.CSS(style), Script: template.JS(script), Platform: platform}
	for budget := full; ; budget = budget.half() {
		b := builder{budget: budget}
		b.build(&p)
		var out bytes.Buffer
		if err := layout.Execute(&out, p); err != nil {
			return nil, fmt.Errorf("write the page: %w", err)
		}
		if out.Len() <= maxPage {
			return out.Bytes(), nil
		}
		if budget == budget.half() {
			return nil, fmt.Errorf("the page has %d bytes however much is left out, more than %d", out.Len(), maxPage)
		}
	}
}
