// Package fatal ends tests that cannot go on, skips those whose data are missing, and compares their output with golden files. Only tests
// import it.
package fatal

import (
	"errors"
	"time"
)

// TB has the methods that testing.TB and rapid.T share and that this package calls.
type TB interface {
	Helper()
	Fatal(args ...any)
}

// If ends the test if err is not nil.
func If(t TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Value returns the value of a call, and ends the test if the call failed: fatal.Value(os.Open(name))(t).
func Value[T any](v T, err error) func(TB) T {
	return func(t TB) T {
		t.Helper()
		If(t, err)
		return v
	}
}

const patience = 2 * time.Minute

// Until waits until check returns no error. If it does not within two minutes, Until ends the test.
func Until(t TB, what string, check func() error) {
	t.Helper()
	err := check()
	for begun := time.Now(); err != nil; err = check() {
		if time.Since(begun) > patience {
			t.Fatal("waited for "+what+":", err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// UntilTrue waits like Until for a condition.
func UntilTrue(t TB, what string, is func() bool) {
	t.Helper()
	Until(t, what, func() error {
		if !is() {
			return errors.New("it is not so")
		}
		return nil
	})
}
