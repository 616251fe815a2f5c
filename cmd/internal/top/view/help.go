package view

import (
	"charm.land/bubbles/v2/key"
)

// helpLines explains every key and what the figures mean.
func (m *Model) helpLines(width int) []string {
	k, st := &m.keys, &m.st
	moving := []key.Binding{k.up, k.down, k.pageUp, k.pageDown, k.home, k.end, k.filter, k.clear, k.pending, k.help, k.quit}
	sorting := []key.Binding{}
	for _, c := range k.columns {
		sorting = append(sorting, c.key)
	}
	sorting = append(sorting, k.left, k.right, k.reverse)
	line := func(b key.Binding) string {
		return "  " + st.bold.Render(st.fit(b.Help().Key, 9)) + b.Help().Desc
	}
	lines := []string{st.bold.Render("Keys")}
	if half := width / 2; half >= 38 {
		for i := range max(len(moving), len(sorting)) {
			left, right := "", ""
			if i < len(moving) {
				left = line(moving[i])
			}
			if i < len(sorting) {
				right = line(sorting[i])
			}
			lines = append(lines, st.fit(left, half)+right)
		}
	} else {
		for _, b := range append(moving, sorting...) {
			lines = append(lines, line(b))
		}
	}
	lines = append(lines, "", st.bold.Render("Filter")+"  words that must all match; !word must not",
		"  worker !notready      name, status, role, zone or version",
		"  cpu>80% mem<=16Gi     requested, as a share or an amount",
		"", st.bold.Render("Figures"),
		"  CPU, MEM, GPU  requested by pods, of what is allocatable",
		"  CPU spread     standard deviation of the workers' CPU share",
		"  bound/s        pods bound per second in the last 10 s, by scheduler")
	return lines
}
