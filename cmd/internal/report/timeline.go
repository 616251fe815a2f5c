package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"gnnsched/internal/runfolder"
)

// mostWorkers is the number of workers that a timeline draws.
const mostWorkers = 64

// timeline draws when each worker was at work: a box for each unit.
func timeline(points []runfolder.Point) chart {
	var names []string
	ends := []float64{0}
	for _, p := range points {
		if ends = append(ends, p.At); !slices.Contains(names, p.Tag) {
			names = append(names, p.Tag)
		}
	}
	slices.Sort(names)
	caption := fmt.Sprintf("When each worker was at work: %s units.", number(float64(len(points)), 0))
	if n := len(names) - mostWorkers; n > 0 {
		caption += fmt.Sprintf(" %d more workers are not drawn.", n)
		names = names[:mostWorkers]
	}
	d := newDrawing(chartWidth, axisHeight+rowHeight*float64(len(names)))
	x := span(ends, labelWidth, chartWidth-rightMargin)
	d.scale(x, d.height-axisHeight+6, short, "seconds")
	for i, name := range names {
		y, worker := rowHeight*float64(i), strings.TrimPrefix(name, runfolder.WorkerTag)
		d.text("end", labelWidth-10, y+rowHeight/2+4, clip(worker, 18))
		for _, p := range points {
			if p.Tag == name {
				from := x.at(max(p.At-p.Value, 0))
				d.box("box "+series(0), [4]float64{from, y + 4, math.Max(x.at(p.At)-from, 0.5), rowHeight - 8},
					fmt.Sprintf("%s: %s, %s to %s s", worker, p.About, short(p.At-p.Value), short(p.At)))
			}
		}
	}
	return chart{d.html(caption), caption}
}
