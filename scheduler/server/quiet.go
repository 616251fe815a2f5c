package server

import (
	"context"
	"errors"

	"gnnsched/internal/logging"
)

// quietAtEnd returns a context whose logger drops errors that say nothing but that ctx was cancelled. An
// instance that ends in an outage cancels the requests of all its informers at once, and each of them would
// log that it failed.
func quietAtEnd(ctx context.Context) context.Context {
	return logging.Quiet(ctx, func(err error) bool { return ctx.Err() != nil && errors.Is(err, context.Canceled) })
}
