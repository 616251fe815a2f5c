package kwok

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"syscall"

	"k8s.io/apimachinery/pkg/util/validation"

	"gnnsched/internal/exit"
	"gnnsched/kwok/nodepool"
)

const loopback = "127.0.0.1"

// Validate checks what can be checked without touching the machine.
func (c *Config) Validate() error {
	if c.Dir == "" {
		return exit.Usagef("the cluster needs a directory for its data")
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
			return exit.New(exit.Usage, fmt.Errorf("bind address %s is open to the network, and nothing says under which name others reach it", c.BindAddress),
				"add --advertise-host with the host name that the others use")
		}
	}
	if h := c.AdvertiseHost; h != "" && net.ParseIP(h) == nil && len(validation.IsDNS1123Subdomain(h)) > 0 {
		return exit.Usagef("advertised host %q is neither a host name nor an IP address", h)
	}
	if c.KubeconfigMode&^0o666 != 0 {
		return exit.Usagef("kubeconfig mode %#o has bits other than read and write", uint32(c.KubeconfigMode))
	}
	if err := nodepool.Validate(c.Pools); err != nil {
		return exit.New(exit.Usage, err, "")
	}
	return nil
}

// complete validates c and fills in what does not depend on the data directory.
func (c *Config) complete() error {
	if err := c.Validate(); err != nil {
		return err
	}
	if c.BindAddress == "" {
		c.BindAddress = loopback
	}
	if c.Context == "" {
		c.Context = DefaultContext
	}
	if c.KubeconfigMode == 0 {
		c.KubeconfigMode = 0o600
	}
	if c.Progress == nil {
		c.Progress = func(string) {}
	}
	return nil
}

// localHost is the address that reaches the listener from this machine.
func (c *Config) localHost() string {
	switch ip := net.ParseIP(c.BindAddress); {
	case ip.IsUnspecified() && ip.To4() == nil:
		return "::1"
	case ip.IsUnspecified():
		return loopback
	}
	return c.BindAddress
}

// hosts are the names and addresses for which the certificate is valid.
func (c *Config) hosts() []string {
	hosts := []string{loopback, "::1", "localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"}
	for _, h := range []string{c.localHost(), c.AdvertiseHost} {
		if h != "" {
			hosts = append(hosts, h)
		}
	}
	return hosts
}

// listen opens the API server's socket: the port asked for, else the one of last time, else
// a free one. It also fills in what c leaves to last time, and saves it.
func listen(c *Config, d *dataDir) (net.Listener, error) {
	last, err := d.settings()
	if err != nil {
		return nil, err
	}
	if c.Pools == nil {
		if c.Pools, err = d.pools(); err != nil {
			return nil, err
		}
	}
	port := c.Port
	if port == 0 {
		port = last.Port
	}
	l, err := net.Listen("tcp", net.JoinHostPort(c.BindAddress, strconv.Itoa(port)))
	if err != nil {
		return nil, listenError(c, port, err)
	}
	last.Port = l.Addr().(*net.TCPAddr).Port
	if err := d.saveSettings(last); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

func listenError(c *Config, port int, err error) error {
	hint := "choose another address with --bind-address"
	switch {
	case errors.Is(err, syscall.EADDRINUSE) && c.Port == 0:
		hint = "another program has taken the port that this cluster had; stop it, or give the cluster a new port with --port (kubeconfigs that were copied then need copying again)"
	case errors.Is(err, syscall.EADDRINUSE):
		hint = "choose another port with --port, or leave it out for a free one"
	case errors.Is(err, os.ErrPermission):
		hint = "ports below 1024 need rights; choose a higher one with --port"
	}
	return exit.New(exit.Usage, fmt.Errorf("listen on %s port %d: %w", c.BindAddress, port, err), hint)
}
