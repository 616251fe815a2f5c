package main

import (
	"strings"
	"testing"

	"gnnsched/gnn/checkpoint"
)

// Each shipped network has a row. None learned from rewards: pages rely on it.
func TestShipped(t *testing.T) {
	for _, of := range []string{"sizes", "training"} {
		table, err := shipped("", of)
		if err != nil {
			t.Fatal(err)
		}
		if rows := strings.Count(table, "\n") - 2; rows != len(checkpoint.ShippedNames()) {
			t.Errorf("%d rows of %s, want %d", rows, of, len(checkpoint.ShippedNames()))
		}
		if strings.Contains(table, "rewards") {
			t.Errorf("a network learned from rewards:\n%s", table)
		}
	}
	if _, err := shipped("", "colours"); err == nil {
		t.Error("a table of colours is no error")
	}
}
