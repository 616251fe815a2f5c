package workers

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"sync"
)

// fileCache keeps the data of units in a worker's folder, under their names.
type fileCache struct {
	dir string
	get func(ctx context.Context, name string) ([]byte, error)

	mu   sync.Mutex
	used map[string]int // by name: units at work
	idle []string       // what none of them needs, the latest last
}

// spare is how many files stay that no unit at work needs: a training run has other weights every second.
const spare = 256

// take fetches data that are not there, and keeps all of them until give.
func (s *fileCache) take(ctx context.Context, names []string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, name := range names {
		if err := s.fetch(ctx, name); err != nil {
			s.drop(names[:i])
			return err
		}
		if s.used[name]++; s.used[name] == 1 {
			s.idle = slices.DeleteFunc(s.idle, func(x string) bool { return x == name })
		}
	}
	return nil
}

func (s *fileCache) fetch(ctx context.Context, name string) error {
	path := filepath.Join(s.dir, name)
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	data, err := s.get(ctx, name)
	if err != nil {
		return err
	}
	if err := os.WriteFile(path+".part", data, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".part", path)
}

// give says that a unit needs its data no more.
func (s *fileCache) give(names []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(names)
}

func (s *fileCache) drop(names []string) {
	for _, name := range names {
		if s.used[name]--; s.used[name] == 0 {
			delete(s.used, name)
			s.idle = append(s.idle, name)
		}
	}
	for ; len(s.idle) > spare; s.idle = s.idle[1:] {
		_ = os.Remove(filepath.Join(s.dir, s.idle[0]))
	}
}
