package kube

import (
	"fmt"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"
)

func TestTraffic(t *testing.T) {
	many := strings.Repeat("a", 63)
	for i := range 70 {
		many += fmt.Sprintf("=1,w%d", i)
	}
	for _, c := range []struct {
		text string
		want []Flow
		err  string // part of it
	}{
		{text: "api=3e6,db=1e6", want: []Flow{{"api", 3e6}, {"db", 1e6}}},
		{text: " api=3000000 , my.db-0=1.5", want: []Flow{{"api", 3e6}, {"my.db-0", 1.5}}},
		{text: "a=1,b=9e11", want: []Flow{{"a", 1}, {"b", 9e11}}},
		{text: "b=1e12", want: []Flow{{"b", 1e12}}},
		{text: "a=1,b=1e12,c=2", err: `entry "b=1e12": all up to here have more than 1e+12`},
		{text: "", err: `entry "": want NAME=RATE`},
		{text: "api=1,", err: "want NAME=RATE"},
		{text: "api", err: "want NAME=RATE"},
		{text: "api=", err: "the rate is not 1 to 1e+12"},
		{text: "api=0.5", err: "the rate is not"},
		{text: "api=-3", err: "the rate is not"},
		{text: "api=1.1e12", err: "the rate is not"},
		{text: "api=NaN", err: "the rate is not"},
		{text: "api=inf", err: "the rate is not"},
		{text: "api=1e400", err: "the rate is not"},
		{text: "api=3MB", err: "the rate is not"},
		{text: "Api=3", err: "no workload can have this name"},
		{text: "other/api=3", err: "no workload can have this name"},
		{text: "a\x1b[31m=3", err: `entry "a\x1b[31m=3": no workload`},
		{text: "api=3,api=4", err: "named twice"},
		{text: many, err: "more than 64 entries"},
		{text: "a=" + strings.Repeat("1", 5000), err: "has 5002 bytes, more than 4096"},
	} {
		got, err := Traffic(c.text)
		if d := cmp.Diff(c.want, got); d != "" || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%.40q: error %v, want %q; %s", c.text, err, c.err, d)
		}
	}
}

// For any text, flows are within their bounds, and errors are short and can be shown on a terminal.
func FuzzTraffic(f *testing.F) {
	for _, s := range []string{"api=3e6,db=1e6", "api", "=", "a=1,a=1", "a=0x1p4", "\x00=\xff", strings.Repeat("a=1,", 70)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		flows, err := Traffic(text)
		if err != nil {
			if m := err.Error(); flows != nil || len(m) > 400 || strings.ContainsFunc(m, unicode.IsControl) {
				t.Errorf("%d flows, error %q", len(flows), m)
			}
			return
		}
		if len(flows) == 0 || len(flows) > maxFlows {
			t.Errorf("%d flows", len(flows))
		}
		for _, x := range flows {
			if x.To == "" || len(x.To) > 253 || !(x.Rate >= 1 && x.Rate <= maxTrafficRate) {
				t.Errorf("flow %+v", x)
			}
		}
	})
}
