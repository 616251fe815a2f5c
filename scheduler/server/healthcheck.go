package server

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"gnnsched/internal/exit"
)

// CheckHealth asks a running scheduler at u, such as https://127.0.0.1:10259/readyz, and writes its
// answer to out. It returns an error with exit code 3 unless the status is 200. It does not verify
// the scheduler's certificate, which is self-signed.
func CheckHealth(ctx context.Context, u *url.URL, timeout time.Duration, out io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return exit.New(exit.Usage, err, "")
	}
	client := http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true,
	}}
	response, err := client.Do(request)
	if err != nil {
		return exit.New(exit.Unreachable, fmt.Errorf("no scheduler answers: %w", err), "is it running, with this port? see rungnn --port")
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, 64<<10))
	if err != nil {
		return exit.New(exit.Unreachable, fmt.Errorf("read the scheduler's answer: %w", err), "")
	}
	if response.StatusCode != http.StatusOK {
		return exit.New(exit.Unreachable, fmt.Errorf("the scheduler says %s: %s", response.Status, strings.TrimSpace(string(body))),
			"its log says why")
	}
	fmt.Fprintln(out, strings.TrimSpace(string(body)))
	return nil
}
