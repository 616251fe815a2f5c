// Package fatal ends tests that cannot go on. Only tests import it.
package fatal

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
