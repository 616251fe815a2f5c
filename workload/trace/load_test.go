package trace

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gnnsched/internal/fatal"
	"gnnsched/workload/record"
)

func TestLoad(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "r.record")
	w, err := record.Create(dir, record.Options{})
	fatal.If(t, err)
	w.Pod(record.Pod{UID: "1", Name: "a", MilliCPU: 100, Arrived: 5000, Bound: 5000, Ended: 9000, Claims: `["data"]`})
	if _, err := w.Close(); err != nil {
		t.Fatal(err)
	}
	f, err := Load(dir)
	if err != nil || len(f.Arrivals) != 1 || f.Arrivals[0].Lifetime != 4 || len(f.Notes) != 1 ||
		!strings.Contains(f.Notes[0], "volume claims (1 pods)") {
		t.Errorf("%+v, %v", f, err)
	}
	csv := filepath.Join(t.TempDir(), "a.csv")
	fatal.If(t, os.WriteFile(csv, []byte("arrival,cpu_request,mem_request\n0,1,1Gi\n"), 0o600))
	if f, err := Load(csv); err != nil || len(f.Arrivals) != 1 {
		t.Errorf("%+v, %v", f, err)
	}
	if _, err := Load(t.TempDir()); err == nil || !strings.Contains(err.Error(), "no part of a record") {
		t.Errorf("an empty folder: %v", err)
	}
}
