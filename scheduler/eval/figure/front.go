package figure

import (
	"fmt"

	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/eval/front"
)

// Front draws the points of a front by its two terms, a line for each group. Labels name the mix, or the baseline.
func Front(f *front.Front) ([]byte, error) {
	names, points := f.Lines()
	var lines []Line
	for _, name := range names {
		l := Line{Name: name}
		for _, p := range points[name] {
			label := p.Mix
			if label == "" {
				label = p.Name
			}
			l.Points = append(l.Points, Point{Name: label, X: eval.MeanInterval(p.Costs[0]), Y: eval.MeanInterval(p.Costs[1])})
		}
		lines = append(lines, l)
	}
	title := fmt.Sprintf("%s, %d seeds", f.Plan.Scenario.Name, len(f.Plan.Seeds))
	return Trade(title, f.Plan.Terms[0].Name()+" over time", f.Plan.Terms[1].Name()+" over time", lines)
}
