package kwok

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"gnnsched/internal/exit"
	kubeconfigs "gnnsched/internal/kubeconfig"
	"gnnsched/kwok/nodepool"
)

const loopback = "127.0.0.1"

// defaultUsageInterval is the time between two samples of the pods' usage, as in a kubelet.
const defaultUsageInterval = 10 * time.Second

const minUsageInterval, maxUsageInterval = 100 * time.Millisecond, time.Hour

// Validate returns the first fault that can be found without accessing files or the network.
func (c *Config) Validate() error {
	if c.Dir == "" {
		return exit.Usagef("the cluster needs a data directory")
	}
	if c.Port < 0 || c.Port > 65535 {
		return exit.Usagef("port %d is not between 0 and 65535", c.Port)
	}
	if c.BindAddress != "" {
		ip := net.ParseIP(c.BindAddress)
		if ip == nil {
			return exit.Usagef("bind address %q is not an IP address", c.BindAddress)
		}
		if !ip.IsLoopback() && c.AdvertiseHost == "" {
			return exit.New(exit.Usage, fmt.Errorf("bind address %s is open to the network, which requires an advertised host", c.BindAddress),
				"add --advertise-host with the host name under which others reach the cluster")
		}
	}
	if h := c.AdvertiseHost; h != "" && net.ParseIP(h) == nil && len(validation.IsDNS1123Subdomain(h)) > 0 {
		return exit.Usagef("advertised host %q is neither a host name nor an IP address", h)
	}
	if c.UsageInterval != 0 && (c.UsageInterval < minUsageInterval || c.UsageInterval > maxUsageInterval) {
		return exit.Usagef("usage interval %v is not %v to %v", c.UsageInterval, minUsageInterval, maxUsageInterval)
	}
	if err := nodepool.Validate(c.Pools); err != nil {
		return exit.New(exit.Usage, err, "")
	}
	return nil
}

// complete validates c and sets the defaults that do not depend on the data directory.
func (c *Config) complete() error {
	if err := c.Validate(); err != nil {
		return err
	}
	c.BindAddress = cmp.Or(c.BindAddress, loopback)
	if c.Context == "" {
		name, err := contextName(c.Dir)
		if err != nil {
			return err
		}
		c.Context = name
	}
	c.UsageInterval = cmp.Or(c.UsageInterval, defaultUsageInterval)
	if c.Progress == nil {
		c.Progress = func(string) {}
	}
	return nil
}

// contextName returns the default name of the context of the cluster in dir. Kubeconfigs of several
// clusters can be merged, because no two directories have the same name.
func contextName(dir string) (string, error) {
	const name = "gnnsched-kwok"
	path, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("find the data directory: %w", err)
	}
	if path == kubeconfigs.SimulatedDir() {
		return name, nil
	}
	sum := sha256.Sum256([]byte(path))
	return fmt.Sprintf("%s-%s-%x", name, filepath.Base(path), sum[:3]), nil
}

// localHost returns the address under which this machine reaches the listener.
func (c *Config) localHost() string {
	switch ip := net.ParseIP(c.BindAddress); {
	case ip.IsUnspecified() && ip.To4() == nil:
		return "::1"
	case ip.IsUnspecified():
		return loopback
	}
	return c.BindAddress
}

// hosts returns the names and addresses of the server's certificate.
func (c *Config) hosts() []string {
	hosts := []string{loopback, "::1", "localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"}
	for _, h := range []string{c.localHost(), c.AdvertiseHost} {
		if h != "" {
			hosts = append(hosts, h)
		}
	}
	return hosts
}

// listen opens the API server's socket on the configured port, else on the port of the previous
// start, else on a free one. It saves the port for the next start, and sets c.Pools to the
// previous ones if it is nil.
func listen(c *Config, d *dataDir) (net.Listener, error) {
	saved, err := d.settings()
	if err != nil {
		return nil, err
	}
	if c.Pools == nil {
		if c.Pools, err = d.pools(); err != nil {
			return nil, err
		}
	}
	port := cmp.Or(c.Port, saved.Port)
	l, err := net.Listen("tcp", net.JoinHostPort(c.BindAddress, strconv.Itoa(port)))
	if err != nil {
		return nil, listenError(c, port, err)
	}
	saved.Port = l.Addr().(*net.TCPAddr).Port
	if err := d.saveSettings(saved); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

func listenError(c *Config, port int, err error) error {
	hint := "choose another address with --bind-address"
	switch {
	case errors.Is(err, syscall.EADDRINUSE) && c.Port == 0:
		hint = "another program uses this cluster's port; stop it, or choose a new port with --port (then copy the kubeconfig again " +
			"if you have copies)"
	case errors.Is(err, syscall.EADDRINUSE):
		hint = "choose another port with --port, or leave --port out for a free one"
	case errors.Is(err, os.ErrPermission):
		hint = "ports below 1024 need special rights; choose a higher one with --port"
	}
	return exit.New(exit.Usage, fmt.Errorf("listen on %s port %d: %w", c.BindAddress, port, err), hint)
}
