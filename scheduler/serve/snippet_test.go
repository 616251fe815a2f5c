package serve

import (
	"os"
	"strings"
	"testing"
	"time"

	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/validation"

	"gnnsched/internal/fatal"
	"gnnsched/internal/golden"
)

// Upstream decodes the printed configuration strictly and finds it valid, and one step of the extender's score outweighs all of upstream's
// score plugins.
func TestSnippet(t *testing.T) {
	const dir = "/etc/kubernetes/gnnsched/"
	e := Extender{
		URL: "https://127.0.0.1:10270", CAFile: dir + "ca.crt", CertFile: dir + "client.crt", KeyFile: dir + "client.key",
		Timeout: 750 * time.Millisecond,
	}
	text, err := e.YAML()
	fatal.If(t, err)
	page, err := os.ReadFile("../../docs/how-to/serve.md")
	fatal.If(t, err)
	if !strings.Contains(string(page), "```yaml\n"+string(text)+"```") {
		t.Errorf("docs/how-to/serve.md does not show what is printed:\n%s", text)
	}
	obj, _, err := scheme.Codecs.UniversalDecoder().Decode(text, nil, nil)
	fatal.If(t, err)
	c := obj.(*config.KubeSchedulerConfiguration)
	c.ClientConnection.Kubeconfig = "x"
	if err := validation.ValidateKubeSchedulerConfiguration(c); err != nil {
		t.Error(err)
	}
	x := c.Extenders[0]
	others := int64(0)
	for _, p := range c.Profiles[0].Plugins.MultiPoint.Enabled {
		others += 100 * int64(p.Weight)
	}
	if step := x.Weight * 100 / extenderv1.MaxExtenderPriority; others < 1000 || step <= others {
		t.Errorf("one step weighs %d, upstream's plugins %d", step, others)
	}
	if !x.Ignorable || !x.NodeCacheCapable || !x.EnableHTTPS || x.TLSConfig.Insecure || x.BindVerb != "" || x.PreemptVerb != "" {
		t.Errorf("%+v", x)
	}
}

func TestRBACText(t *testing.T) {
	text, err := Role{Name: RoleName, Namespace: "kube-system"}.RBAC()
	fatal.If(t, err)
	golden.Check(t, "rbac.yaml", string(text))
}
