package workers

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
)

// A worker keeps what its units need, and of the rest what it used last.
func TestShelf(t *testing.T) {
	fetched := 0
	s := fileCache{dir: t.TempDir(), used: map[string]int{}, get: func(_ context.Context, name string) ([]byte, error) {
		if name == "lost" {
			return nil, os.ErrNotExist
		}
		fetched++
		return []byte(name), nil
	}}
	take := func(names ...string) {
		t.Helper()
		if err := s.take(t.Context(), names); err != nil {
			t.Fatal(err)
		}
	}
	take("world", "net")
	take("world")
	s.give([]string{"world", "net"})
	for i := range spare {
		name := strconv.Itoa(i)
		take(name)
		s.give([]string{name})
	}
	if err := s.take(t.Context(), []string{"0", "lost"}); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	there := func(name string) bool {
		_, err := os.Stat(filepath.Join(s.dir, name))
		return err == nil
	}
	if !there("world") || there("net") || !there("0") || len(s.used) != 1 {
		t.Errorf("world %v, net %v, 0 %v, used %v", there("world"), there("net"), there("0"), s.used)
	}
	if before := fetched; !slices.Equal(s.idle[len(s.idle)-1:], []string{"0"}) || before != spare+2 {
		t.Errorf("%d were fetched; the last is %s", before, s.idle[len(s.idle)-1])
	}
	take("net")
	if fetched != spare+3 {
		t.Error("what was removed is not fetched again")
	}
}
