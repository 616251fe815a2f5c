package kwok

import (
	"fmt"
	"os"
	"path/filepath"

	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"gnnsched/internal/exit"
	"gnnsched/internal/files"
)

// kubeconfig returns a kubeconfig that needs no other file: it contains the certificate authority
// and the token.
func kubeconfig(context, url string, creds credentials) *clientcmdapi.Config {
	k := clientcmdapi.NewConfig()
	k.Clusters[context] = &clientcmdapi.Cluster{Server: url, CertificateAuthorityData: creds.caPEM}
	k.AuthInfos[context] = &clientcmdapi.AuthInfo{Token: creds.token}
	k.Contexts[context] = &clientcmdapi.Context{Cluster: context, AuthInfo: context}
	k.CurrentContext = context
	return k
}

// copyKubeconfig writes a kubeconfig to a file that the user chose.
func copyKubeconfig(path string, b []byte) error {
	err := os.MkdirAll(filepath.Dir(path), 0o700)
	if err == nil {
		err = files.Write(path, b, 0o600)
	}
	if err != nil {
		return exit.New(exit.Usage, fmt.Errorf("write the kubeconfig %s: %w", path, err),
			"choose a file that you can write to with --kubeconfig-out")
	}
	return nil
}
