package choice

import (
	"testing"

	"pgregory.net/rapid"
)

var policies = []string{"kube-scheduler", "best-fit", "greedy-balance", "linear", "gnn", "acgnn", "fgd"}

func TestClosest(t *testing.T) {
	for wrong, want := range map[string]string{
		"gready-balance": "greedy-balance", "greedy_balance": "greedy-balance", "BEST-FIT": "best-fit", "bestfit": "best-fit",
		"kube":           "kube-scheduler",
		"kube-schedular": "kube-scheduler", "lineer": "linear", "gn": "gnn", "fdg": "fgd", "random": "", "zzz": "", "": "",
	} {
		if got := Closest(wrong, policies); got != want {
			t.Errorf("%q: %q, want %q", wrong, got, want)
		}
	}
}

// A known name in any letters is its own best answer, and every answer is a known name.
func TestClosestIsKnown(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		known := rapid.SliceOfNDistinct(rapid.StringMatching(`[a-z]{1,8}(-[a-z]{1,8})?`), 1, 8, rapid.ID[string]).Draw(t, "known")
		n := rapid.SampledFrom(known).Draw(t, "name")
		if got := Closest(n, known); got != n {
			t.Fatalf("%q: %q", n, got)
		}
		wrong := rapid.String().Draw(t, "wrong")
		got := Closest(wrong, known)
		for _, k := range append(known, "") {
			if got == k {
				return
			}
		}
		t.Fatalf("%q: %q is none of %q", wrong, got, known)
	})
}

func TestErrors(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{Unknown("policy", "lineer", policies[3:5]), `no policy is called "lineer" (did you mean linear?); there are linear, gnn`},
		{Unknown("policy", "zzz", policies[3:5]), `no policy is called "zzz"; there are linear, gnn`},
		{Unknown("policy", "zz\x1b[2J", nil), `no policy is called "zz\x1b[2J"`},
	} {
		if c.err.Error() != c.want {
			t.Errorf("%v, want %s", c.err, c.want)
		}
	}
}
