package main

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// Every generated part of the docs is up to date. `make docs` renews them.
func TestPagesAreFresh(t *testing.T) {
	stale, err := write("../..", true)
	if err != nil {
		t.Fatal(err)
	}
	if len(stale) > 0 {
		t.Errorf("%q are stale: run make docs", stale)
	}
}

// The suggested alerts name metrics and labels that exist.
func TestAlertsUseMetrics(t *testing.T) {
	page, err := os.ReadFile("../reference/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	hand, generated, found := strings.Cut(string(page), "<!-- generated: prometheus-metrics -->")
	if !found {
		t.Fatal("docs/reference/metrics.md has no list of metrics")
	}
	names := regexp.MustCompile(`gnnsched_[a-z_]*[a-z]`).FindAllString(hand, -1)
	if len(names) < 10 {
		t.Errorf("only %q are used", names)
	}
	for _, name := range names {
		for _, suffix := range []string{"_bucket", "_count", "_sum"} {
			name = strings.TrimSuffix(name, suffix)
		}
		if name != "gnnsched_serve" && name != "gnnsched_shadow" && !strings.Contains(generated, "| `"+name+"` |") {
			t.Errorf("there is no metric %s", name)
		}
	}
}

// A part without an end takes nothing of what stands behind it.
func TestPartWithoutEnd(t *testing.T) {
	page := "<!-- generated: exit-codes -->\n\nby hand\n\n<!-- generated: exit-codes -->\n<!-- end -->\n"
	if fresh, err := renew("../..", []byte(page)); err == nil || string(fresh) != page {
		t.Errorf("%s, %v", fresh, err)
	}
}
