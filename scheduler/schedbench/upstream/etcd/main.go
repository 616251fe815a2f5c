// Command etcd is etcd itself. Kubernetes' integration tests look for an executable of this name
// in PATH and start one for each workload.
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() { etcdmain.Main(os.Args) }
