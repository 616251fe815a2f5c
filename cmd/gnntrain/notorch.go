//go:build !torch

package main

import (
	"errors"

	ucli "github.com/urfave/cli/v2"

	"gnnsched/internal/exit"
)

func learnOnline(*ucli.Context) error { return errNoTorch }
func trainGPU(*ucli.Context) error    { return errNoTorch }
func trainKinds(*ucli.Context) error  { return errNoTorch }
func pick(*ucli.Context) error        { return errNoTorch }

var errNoTorch = exit.New(exit.Usage, errors.New("this binary was built without libtorch"), "build it with `make trainer`")
