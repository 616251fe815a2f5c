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
	s := shelf{dir: t.TempDir(), used: map[string]int{}, get: func(_ context.Context, name string) ([]byte, error) {
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

// Programs with libraries are other builds where those, or the processor, differ.
func TestLibrariesOfABuild(t *testing.T) {
	maps := filepath.Join(t.TempDir(), "maps")
	text := "00400000-00452000 r-xp 00000000 08:02 173521 /usr/bin/prog\n7f1-7f2 r-xp 0 08:02 1 /lib/libtorch_cpu.so.1.13\n7f2-7f3 r--p 0 " +
		"08:02 1 /lib/libtorch_cpu.so.1.13\n7f4-7f5 r-xp 0 08:02 2 /lib/libc.so.6\n7f5-7f6 r-xp 0 08:02 3 /lib/libnss_dns.so.2\n7f6-7f7 rw-p " +
		"0 00:00 0 [stack]\n"
	if err := os.WriteFile(maps, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := loaded(maps); err != nil || !slices.Equal(got, []string{"/lib/libc.so.6", "/lib/libtorch_cpu.so.1.13"}) {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := loaded(maps + "x"); err != nil || got != nil {
		t.Errorf("%q, %v", got, err)
	}
	one := "processor\t: 0\nvendor_id\t: A\nmodel\t\t: 85\nmodel name\t: fast\ncpu MHz\t: 2000\n\nprocessor\t: 1\nvendor_id\t: B\n"
	if got := string(features([]byte(one))); got != "vendor_id\t: Amodel\t\t: 85" {
		t.Errorf("%q", got)
	}
}
