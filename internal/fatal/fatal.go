// Package fatal ends tests that cannot go on. Only tests import it.
package fatal

// TB is what the package needs of a testing.TB or a rapid.T.
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
