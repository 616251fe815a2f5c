package recording

import (
	"fmt"

	ucli "github.com/urfave/cli/v2"

	"gnnsched/internal/exit"
	"gnnsched/internal/files"
	"gnnsched/scheduler/replay"
)

// PricesFlag returns the flag --prices that Prices reads.
func PricesFlag() ucli.Flag {
	return &ucli.StringFlag{Name: "prices", Usage: "YAML `FILE` with what nodes cost an hour"}
}

// Prices reads the file of --prices; nil without it.
func Prices(c *ucli.Context) (*replay.Prices, error) {
	path := c.String("prices")
	if path == "" {
		return nil, nil
	}
	text, err := files.Read(path, files.Text)
	if err != nil {
		return nil, exit.New(exit.Usage, fmt.Errorf("--prices: %w", err), "docs/how-to/compare.md shows such a file")
	}
	p, err := replay.ParsePrices(text)
	if err != nil {
		return nil, exit.New(exit.Usage, fmt.Errorf("--prices %s: %w", path, err), "docs/how-to/compare.md shows such a file")
	}
	return p, nil
}
