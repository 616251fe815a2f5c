package cli

import (
	"errors"
	"reflect"
)

// PrintResult prints what a computation found. With an error, a result that is not zero covers a part, and is printed, too. Errors are
// joined.
func PrintResult[R any](compute func() (R, error), print func(R) error) error {
	result, err := compute()
	if err != nil && reflect.ValueOf(&result).Elem().IsZero() {
		return err
	}
	return errors.Join(err, print(result))
}
