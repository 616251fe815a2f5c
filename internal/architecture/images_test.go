package architecture

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Images are built of what .dockerignore lets through: all that the Dockerfiles copy, and for the
// scheduler every folder with code.
func TestImagesGetTheirSources(t *testing.T) {
	lines := func(name string) []string {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		return strings.Split(string(text), "\n")
	}
	through := lines(".dockerignore")
	copied := map[string][]string{}
	for _, name := range []string{"cluster", "scheduler", "trainer"} {
		for _, line := range lines("compose/" + name + ".Dockerfile") {
			words := strings.Fields(line)
			if len(words) < 3 || words[0] != "COPY" || strings.HasPrefix(words[1], "--from") {
				continue
			}
			for _, source := range words[1 : len(words)-1] {
				copied[name] = append(copied[name], source)
				if !slices.Contains(through, "!"+source) {
					t.Errorf("compose/%s.Dockerfile copies %s, which .dockerignore holds back", name, source)
				}
			}
		}
	}
	for _, folder := range levels {
		if folder == "docs" { // its program is in no image
			continue
		}
		if !slices.Contains(copied["scheduler"], folder) {
			t.Errorf("compose/scheduler.Dockerfile does not copy %s", folder)
		}
	}
}
