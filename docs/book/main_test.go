package main

import "testing"

// Every generated part of the docs is as its producer writes it today. `make docs` writes them anew.
func TestPagesAreFresh(t *testing.T) {
	stale, err := write("../..", true)
	if err != nil {
		t.Fatal(err)
	}
	if len(stale) > 0 {
		t.Errorf("%q are stale: run make docs", stale)
	}
}
