package run

import (
	"strings"
	"testing"
)

func TestTeacherByName(t *testing.T) {
	if p, err := TeacherByName("best-fit", nil); err != nil || p.Name() != "best-fit" {
		t.Error(p, err)
	}
	for name, want := range map[string]string{
		"nobody": "nobody", "nowhere.json": "nowhere.json",
		"random": "--resume", "round-robin": "--resume", // whose state is not saved
		"fgd": "gnntrain gpu", "gpu-packing": "gnntrain gpu",
	} {
		if _, err := TeacherByName(name, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one with %q", name, err, want)
		}
	}
}
