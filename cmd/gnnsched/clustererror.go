package main

import (
	"context"
	"errors"
	"net/url"

	"gnnsched/internal/exit"
)

// clusterError gives an error on the way to the API server, which had answered before, the
// exit code for that.
func clusterError(err error) error {
	var known *exit.Error
	var request *url.Error // what every failed HTTP request ends in
	if err == nil || errors.As(err, &known) || !errors.As(err, &request) || errors.Is(err, context.Canceled) {
		return err
	}
	return exit.New(exit.Unreachable, err, "the cluster answered before; is it still up? `kwokcluster status` tells")
}
