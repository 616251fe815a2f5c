package trial

import (
	"strings"
	"testing"

	"gnnsched/scheduler/objective"
)

func TestMixes(t *testing.T) {
	all, terms, err := mixes("balance,energy")
	if err != nil || terms[0].Name() != "balance" || terms[1].Name() != "energy" {
		t.Fatal(terms, err)
	}
	var names []string
	for _, m := range all {
		names = append(names, m.Name())
	}
	if got := strings.Join(names, " "); got != "balance balance=0.75,energy=0.625 balance=0.5,energy=1.25 "+
		"balance=0.25,energy=1.875 energy=2.5" {
		t.Error(got)
	}
	for text, want := range map[string]string{"balance": "has 1 terms", "balance,zones": "cannot read the term zones",
		"a,b": `no term is called "a"`, "balance,energy,pack": "has 3 terms"} {
		if _, _, err := mixes(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	m, err := objective.Parse("balance=2,energy=5")
	if err != nil {
		t.Fatal(err)
	}
	if same, err := among(m, all); err != nil || same.Name() != "balance=0.5,energy=1.25" {
		t.Error(same, err)
	}
	if m, err = objective.Parse("balance=2,energy=6"); err != nil {
		t.Fatal(err)
	}
	if _, err := among(m, all); err == nil || !strings.Contains(err.Error(), "is none of the mixes") {
		t.Error(err)
	}
}
