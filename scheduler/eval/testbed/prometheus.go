package testbed

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"gnnsched/internal/promapi"
)

// scrapeInterval is the time between two scrapes of StartPrometheus.
const scrapeInterval = 5 * time.Second

// PrometheusHint says where to find the program of StartPrometheus.
const PrometheusHint = "install Debian's package prometheus, or unpack it with `make prometheus` and name " +
	".cache/prometheus/usr/bin/prometheus"

// scrapes is Prometheus' configuration. It scrapes two of the pages of compose/monitoring/prometheus.yaml: the usage of machines and pods,
// and the power of machines.
const scrapes = `global: {scrape_interval: INTERVAL}
scrape_configs:
- job_name: cadvisor
  scheme: https
  authorization: &token {type: Bearer, credentials_file: DIR/token}
  tls_config: &tls {ca_file: DIR/ca.crt}
  http_sd_configs: &nodes [{url: "https://HOST/discovery/prometheus", refresh_interval: INTERVAL, authorization: *token, tls_config: *tls}]
  relabel_configs:
  - {source_labels: [node], target_label: instance}
  - {source_labels: [node], target_label: __metrics_path__, replacement: /api/v1/nodes/$1/proxy/metrics/cadvisor}
- job_name: kepler
  scheme: https
  authorization: *token
  tls_config: *tls
  http_sd_configs: *nodes
  relabel_configs:
  - {source_labels: [node], target_label: instance}
  - {source_labels: [node], target_label: __metrics_path__, replacement: "/api/v1/nodes/$1:28282/proxy/metrics"}
`

// StartPrometheus runs a program of Prometheus that scrapes the cluster, until the returned function stops it. It returns when pages were
// scraped, with Prometheus' URL. Log and data are deleted with the bed. When it ends by itself, the context of the bed ends with an error.
func (b *Bed) StartPrometheus(ctx context.Context, program string) (url string, stop func(), err error) {
	dir := filepath.Join(b.dir, "prometheus")
	text := strings.NewReplacer("INTERVAL", scrapeInterval.String(), "DIR", dir, "HOST",
		strings.TrimPrefix(b.REST.Host, "https://")).Replace(scrapes)
	err = errors.Join(os.Mkdir(dir, 0o700), os.WriteFile(filepath.Join(dir, "ca.crt"), b.REST.CAData, 0o600),
		os.WriteFile(filepath.Join(dir, "token"), []byte(b.REST.BearerToken), 0o600),
		os.WriteFile(filepath.Join(dir, "prometheus.yaml"), []byte(text), 0o600))
	if err != nil {
		return "", nil, fmt.Errorf("write Prometheus' configuration: %w", err)
	}
	listen, err := freeAddress()
	if err != nil {
		return "", nil, err
	}
	p, err := start("Prometheus", PrometheusHint, filepath.Join(dir, "log"), program,
		"--config.file="+filepath.Join(dir, "prometheus.yaml"), "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+listen)
	if err != nil {
		return "", nil, err
	}
	url = "http://" + listen
	if err := scraped(ctx, p, url); err != nil {
		return "", nil, errors.Join(err, p.Stop())
	}
	stopping := make(chan struct{})
	go func() {
		<-p.done
		select {
		case <-stopping:
		default:
			b.End(fmt.Errorf("Prometheus ended: %s", p.lastLine())) //nolint:staticcheck // a name
		}
	}()
	return url, func() { close(stopping); _ = p.Stop() }, nil // its data is deleted anyway
}

// scraped waits until Prometheus has scraped a page.
func scraped(ctx context.Context, p *process, url string) error {
	client, err := promapi.New(promapi.Server{Address: url})
	if err != nil {
		return err
	}
	defer client.HTTP.CloseIdleConnections()
	return p.wait(ctx, func(ctx context.Context) bool {
		pages, err := client.Query(ctx, "up == 1", time.Time{})
		return err == nil && len(pages) > 0
	})
}

// freeAddress returns an unused address of this machine. Prometheus does not report which port it chose.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a port for Prometheus: %w", err)
	}
	return l.Addr().String(), l.Close()
}
