package server

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"
)

// Events of a scheduler with any name have a reporting controller that the API server takes.
func TestController(t *testing.T) {
	for name, want := range map[string]string{
		"gnn":                                "gnn",
		"example.com/batch":                  "example.com/batch",
		"linear:./my weights":                "linear-.-my-weights",
		"größe":                              "gr--e",
		":":                                  "gnnsched",
		strings.Repeat("+x", 40):             strings.Repeat("x-", 31)[:61],
		"ahead:traffic+overload+balance=0.1": "ahead-traffic-overload-balance-0.1",
	} {
		got := controller(name)
		if got != want {
			t.Errorf("%q has the controller %q, want %q", name, got, want)
		}
		if faults := validation.IsQualifiedName(got); len(faults) > 0 {
			t.Errorf("%q has the controller %q: %v", name, got, faults)
		}
	}
}
