package metric

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"

	"k8s.io/component-base/metrics/legacyregistry"

	"gnnsched/internal/exit"
)

// Serve serves /metrics, and /healthz with the error of healthy, at an address until ctx ends.
func Serve(ctx context.Context, address string, healthy func() error) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return exit.New(exit.Usage, fmt.Errorf("--metrics-address: %w", err), "choose a free port of this machine, such as 127.0.0.1:9090")
	}
	mux := http.NewServeMux()
	mux.Handle("/metrics", legacyregistry.Handler())
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) {
		if err := healthy(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		_, _ = w.Write([]byte("ok\n"))
	})
	s := &http.Server{Handler: mux, ReadHeaderTimeout: SlowClientLimit, ReadTimeout: SlowClientLimit}
	defer context.AfterFunc(ctx, func() { s.Close() })()
	if err := s.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
