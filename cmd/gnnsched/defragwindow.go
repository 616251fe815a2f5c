package main

import (
	"errors"
	"strings"
	"time"
)

// window is a part of each day, in minutes since midnight. It may pass midnight. The empty window is the whole day.
type window struct{ from, to int }

// parseWindow reads a window such as 22:00-05:00; "" is the whole day.
func parseWindow(text string) (window, error) {
	if text == "" {
		return window{}, nil
	}
	a, b, is := strings.Cut(text, "-")
	from, err := time.Parse("15:04", a)
	to, err2 := time.Parse("15:04", b)
	if err := errors.Join(err, err2); err != nil || !is || from.Equal(to) {
		return window{}, errors.New("these are not two times of the day")
	}
	return window{from.Hour()*60 + from.Minute(), to.Hour()*60 + to.Minute()}, nil
}

// until returns the time until the window begins; 0 within it.
func (w window) until(now time.Time) time.Duration {
	minute := now.Hour()*60 + now.Minute()
	in := minute >= w.from && minute < w.to
	if w.to <= w.from {
		in = minute >= w.from || minute < w.to
	}
	if in || w == (window{}) {
		return 0
	}
	begin := time.Date(now.Year(), now.Month(), now.Day(), w.from/60, w.from%60, 0, 0, now.Location())
	if begin.Before(now) {
		begin = begin.AddDate(0, 0, 1)
	}
	return begin.Sub(now)
}
