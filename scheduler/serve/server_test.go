package serve

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers/gorillamux"
	v1 "k8s.io/api/core/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/validation"

	"gnnsched/internal/exit"
	"gnnsched/internal/fatal"
	"gnnsched/scheduler/advise"
	"gnnsched/scheduler/plugin"
)

// patience is the time limit of every wait. No passing test waits until it ends.
const patience = time.Minute

// canned is an Adviser with prepared answers.
type canned struct {
	rank   func(context.Context, []string) ([]advise.Ranked, error)
	behind bool
}

func (c *canned) Rank(ctx context.Context, _ *v1.Pod, names []string) ([]advise.Ranked, error) {
	return c.rank(ctx, names)
}

func (*canned) Admit(_ context.Context, p *v1.Pod, names []string) (map[string]string, error) {
	if p.Name == "share" {
		return map[string]string{names[0]: "no"}, nil
	}
	return nil, nil
}

func (*canned) Suggest(context.Context, *v1.Pod) (advise.Suggestion, error) {
	return advise.Suggestion{
		Decider: advise.Decider{Policy: "gnn", Fingerprint: "0000000000000011"}, Took: 0.001,
		Nodes: []advise.Suggested{{
			Node: "a", Score: 100, Raw: 0.5, Preferred: true, Reasons: []string{"best"}, CPU: advise.Share{Now: 0.1, WithPod: 0.2},
		}},
		Refusals: []advise.Refusal{{Reason: "full", Count: 7, Nodes: []string{"b", "c"}}},
	}, nil
}

func (*canned) State(context.Context) (advise.State, error) {
	return advise.State{Synced: true, Nodes: 8, Pods: 3, Promised: 1,
		Decider: advise.Decider{Policy: "gnn", Fingerprint: "0000000000000011"}}, nil
}

func (c *canned) Synced() bool { return !c.behind }

// falling ranks the nodes in the order in which they are named.
func falling(_ context.Context, names []string) ([]advise.Ranked, error) {
	var out []advise.Ranked
	for i, name := range names {
		out = append(out, advise.Ranked{Node: name, Score: int8(100 - 40*i)})
	}
	return out, nil
}

// site is a running server with credentials of its own.
type site struct {
	*Server
	own  Credentials
	stop func()
}

func testConfig(own Credentials) Config {
	return Config{
		Address: "127.0.0.1", CertFile: own.CertFile, KeyFile: own.KeyFile, ClientCAFile: own.CAFile, TokenFile: own.TokenFile,
		Timeout: patience, InFlight: 4, MaxBytes: 1 << 20,
	}
}

// open starts a server; edit, if not nil, changes its configuration first.
func open(t testing.TB, a Adviser, own Credentials, edit func(*Config)) *site {
	t.Helper()
	c := testConfig(own)
	if edit != nil {
		edit(&c)
	}
	s, err := New(c, a)
	fatal.If(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	stopped := false
	stop := func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(patience):
			t.Error("the server does not stop")
		}
	}
	t.Cleanup(stop)
	return &site{Server: s, own: own, stop: stop}
}

func credentials(t testing.TB) Credentials {
	t.Helper()
	return fatal.Value(NewCredentials(filepath.Join(t.TempDir(), "certs"), time.Now()))(t)
}

// client returns a client that trusts the server. With certificate it has one.
func (s *site) client(t testing.TB, certificate bool) *http.Client {
	t.Helper()
	ca, err := os.ReadFile(s.own.CAFile)
	fatal.If(t, err)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	config := &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	if certificate {
		pair := fatal.Value(tls.LoadX509KeyPair(s.own.ClientCert, s.own.ClientKey))(t)
		config.Certificates = []tls.Certificate{pair}
	}
	transport := &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: patience}
}

// ask sends a request with a client certificate and returns status and body.
func (s *site) ask(t testing.TB, method, path, body string) (int, string) {
	t.Helper()
	return s.send(t, s.client(t, true), s.request(t, method, path, body))
}

func (s *site) request(t testing.TB, method, path, body string) *http.Request {
	t.Helper()
	r := fatal.Value(http.NewRequest(method, "https://"+s.Address()+path, strings.NewReader(body)))(t)
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/json")
	}
	return r
}

func (s *site) send(t testing.TB, c *http.Client, r *http.Request) (int, string) {
	t.Helper()
	resp := fatal.Value(c.Do(r))(t)
	defer resp.Body.Close()
	text := fatal.Value(io.ReadAll(resp.Body))(t)
	return resp.StatusCode, string(text)
}

const (
	threeNodes = `{"Pod":{"metadata":{"name":"p"}},"Nodes":null,"NodeNames":["a","b","c"]}`
	wholeNodes = `{"Pod":{"metadata":{"name":"p"}},"Nodes":{"items":[{"metadata":{"name":"a"}},{"metadata":{"name":"b"}}]}}`
	goodPod    = `{"apiVersion":"v1","kind":"Pod","spec":{"containers":[{"name":"c","image":"i","resources":{"limits":{"cpu":"1"}}}]}}`
)

// Every path is requested without credentials, with wrong ones, with a certificate and with a token.
func TestDoor(t *testing.T) {
	s := open(t, &canned{rank: falling}, credentials(t), nil)
	stranger := credentials(t) // of another CA
	line := fatal.Value(os.ReadFile(s.own.TokenFile))(t)
	token, _, _ := strings.Cut(string(line), ",")
	bodies := map[string]string{filterPath: threeNodes, prioritizePath: threeNodes, "/v1/suggestions": goodPod}
	for _, r := range s.routes() {
		for _, way := range []struct {
			name        string
			certificate bool
			token       string
			want        int
		}{
			{name: "nobody", want: http.StatusUnauthorized}, {name: "wrong token", token: "wrong", want: http.StatusUnauthorized},
			{name: "certificate", certificate: true, want: http.StatusOK}, {name: "token", token: token, want: http.StatusOK},
		} {
			want := way.want
			if r.open {
				want = http.StatusOK
			}
			ask := s.request(t, r.method, r.path, bodies[r.path])
			if way.token != "" {
				ask.Header.Set("Authorization", "Bearer "+way.token)
			}
			if got, body := s.send(t, s.client(t, way.certificate), ask); got != want {
				t.Errorf("%s %s, %s: status %d, want %d: %s", r.method, r.path, way.name, got, want, body)
			}
		}
	}
	other := &site{Server: s.Server, own: Credentials{CAFile: s.own.CAFile, ClientCert: stranger.ClientCert, ClientKey: stranger.ClientKey}}
	if got, _ := other.ask(t, http.MethodGet, "/v1/state", ""); got != http.StatusUnauthorized {
		t.Errorf("a certificate of another CA: status %d", got)
	}
	named := open(t, &canned{rank: falling}, s.own, func(c *Config) { c.AllowedNames = []string{"kube-scheduler"} })
	if got, body := named.ask(t, http.MethodGet, "/v1/state", ""); got != http.StatusForbidden || !strings.Contains(body, "forbidden") {
		t.Errorf("a name that is not allowed: status %d, %s", got, body)
	}
}

// Plain HTTP gets no answer of ours.
func TestNoPlainHTTP(t *testing.T) {
	s := open(t, &canned{rank: falling}, credentials(t), nil)
	resp, err := http.Get("http://" + s.Address() + "/healthz")
	if err != nil {
		return
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusOK {
		t.Errorf("status %d", resp.StatusCode)
	}
}

func TestExtender(t *testing.T) {
	s := open(t, &canned{rank: falling}, credentials(t), nil)
	for _, c := range []struct{ name, path, body, want string }{
		{"prioritize", prioritizePath, threeNodes, `[{"Host":"a","Score":10},{"Host":"b","Score":6},{"Host":"c","Score":2}]`},
		{"prioritize whole nodes", prioritizePath, wholeNodes, `[{"Host":"a","Score":10},{"Host":"b","Score":6}]`},
		{"filter passes", filterPath, threeNodes,
			`{"Nodes":null,"NodeNames":["a","b","c"],"FailedNodes":null,"FailedAndUnresolvableNodes":null,"Error":""}`},
		{"filter refuses", filterPath, strings.Replace(threeNodes, `"p"`, `"share"`, 1),
			`{"Nodes":null,"NodeNames":["b","c"],"FailedNodes":null,"FailedAndUnresolvableNodes":{"a":"no"},"Error":""}`},
	} {
		if status, got := s.ask(t, http.MethodPost, c.path, c.body); status != http.StatusOK || strings.TrimSpace(got) != c.want {
			t.Errorf("%s: %d, %s, want %s", c.name, status, got, c.want)
		}
	}
	var passed struct{ Nodes *v1.NodeList }
	if _, got := s.ask(t, http.MethodPost, filterPath, wholeNodes); json.Unmarshal([]byte(got), &passed) != nil || passed.Nodes == nil ||
		len(passed.Nodes.Items) != 2 {
		t.Errorf("whole nodes: %s", got)
	}
}

// Wrong requests and failures get an error with a status, a reason and a bounded message.
func TestFaults(t *testing.T) {
	fails := func(err error) func(context.Context, []string) ([]advise.Ranked, error) {
		return func(context.Context, []string) ([]advise.Ranked, error) { return nil, err }
	}
	long := strings.Repeat("x", 5000)
	for _, c := range []struct {
		name, path, body string
		rank             func(context.Context, []string) ([]advise.Ranked, error)
		status           int
		reason           string
	}{
		{name: "not JSON", path: prioritizePath, body: "{", status: 400, reason: "bad_request"},
		{name: "more than one document", path: prioritizePath, body: threeNodes + threeNodes, status: 400, reason: "bad_request"},
		{name: "no pod", path: prioritizePath, body: `{"NodeNames":[]}`, status: 400, reason: "bad_request"},
		{name: "no nodes", path: filterPath, body: `{"Pod":{}}`, status: 400, reason: "bad_request"},
		{name: "too large", path: prioritizePath, body: `{"Pod":"` + strings.Repeat("x", 2<<20) + `"}`, status: 413, reason: "too_large"},
		{name: "no network", path: prioritizePath, body: threeNodes,
			rank: fails(&plugin.Undecided{Reason: "no_model", Err: errors.New("none")}), status: 503, reason: "undecided"},
		{name: "not read yet", path: prioritizePath, body: threeNodes, rank: fails(advise.ErrNotSynced), status: 503, reason: "not_ready"},
		{name: "a bug", path: prioritizePath, body: threeNodes,
			rank: func(context.Context, []string) ([]advise.Ranked, error) { panic("secret") }, status: 500, reason: "error"},
		{name: "no containers", path: "/v1/suggestions", body: `{"spec":{}}`, status: 400, reason: "bad_request"},
		{name: "unknown field", path: "/v1/suggestions", body: strings.Replace(goodPod, `"kind"`, `"`+long+`":1,"kind"`, 1), status: 400,
			reason: "bad_request"},
		{name: "has a node", path: "/v1/suggestions", body: strings.Replace(goodPod, `"spec":{`, `"spec":{"nodeName":"a",`, 1), status: 400,
			reason: "bad_request"},
		{name: "not a pod", path: "/v1/suggestions", body: `{"apiVersion":"v1","kind":"` + long + `"}`, status: 400, reason: "bad_request"},
		{name: "hostile name", path: "/v1/suggestions", body: strings.Replace(goodPod, `"spec"`,
			`"metadata":{"name":"\u001b[2J`+long+`"},"spec"`, 1), status: 400, reason: "bad_request"},
	} {
		rank := c.rank
		if rank == nil {
			rank = falling
		}
		s := open(t, &canned{rank: rank}, credentials(t), nil)
		status, body := s.ask(t, http.MethodPost, c.path, c.body)
		var got problem
		if err := json.Unmarshal([]byte(body), &got); err != nil || status != c.status || got.Reason != c.reason {
			t.Errorf("%s: %d %.200s (%v), want %d %s", c.name, status, body, err, c.status, c.reason)
		}
		if len(got.Message) > 2*maxMessage || strings.ContainsAny(got.Message, "\x1b\n") || strings.Contains(got.Message, "secret") {
			t.Errorf("%s: message of %d bytes: %.600q", c.name, len(got.Message), got.Message)
		}
	}
	s := open(t, &canned{rank: falling}, credentials(t), nil)
	form := s.request(t, http.MethodPost, prioritizePath, threeNodes)
	form.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if status, _ := s.send(t, s.client(t, true), form); status != http.StatusUnsupportedMediaType {
		t.Errorf("a form: status %d", status)
	}
}

// A request that takes too long gets an answer in time, and keeps its slot until it ends; a request without a slot is refused at once.
func TestLimits(t *testing.T) {
	entered, leave := make(chan struct{}, 8), make(chan struct{})
	stuck := func(context.Context, []string) ([]advise.Ranked, error) {
		entered <- struct{}{}
		<-leave
		return nil, nil
	}
	s := open(t, &canned{rank: stuck}, credentials(t), func(c *Config) { c.InFlight, c.Timeout = 1, 50*time.Millisecond })
	if status, body := s.ask(t, http.MethodPost, prioritizePath, threeNodes); status != http.StatusServiceUnavailable ||
		!strings.Contains(body, `"deadline"`) {
		t.Fatalf("stuck: %d %s", status, body)
	}
	<-entered
	r := s.request(t, http.MethodPost, prioritizePath, threeNodes)
	resp := fatal.Value(s.client(t, true).Do(r))(t)
	resp.Body.Close()
	if resp.StatusCode != http.StatusTooManyRequests || resp.Header.Get("Retry-After") == "" {
		t.Fatalf("no slot is free: status %d, %v", resp.StatusCode, resp.Header)
	}
	if status, _ := s.ask(t, http.MethodGet, "/livez", ""); status != http.StatusOK {
		t.Errorf("health needs a slot: status %d", status)
	}
	close(leave)
	fatal.UntilTrue(t, "the slots to be free", func() bool { return len(s.limits.slots) == 0 })
}

func TestReady(t *testing.T) {
	a := &canned{rank: falling, behind: true}
	s := open(t, a, credentials(t), nil)
	if status, _ := s.ask(t, http.MethodGet, "/readyz", ""); status != http.StatusServiceUnavailable {
		t.Errorf("not read yet: status %d", status)
	}
	if status, _ := s.ask(t, http.MethodGet, "/healthz", ""); status != http.StatusOK {
		t.Errorf("alive: status %d", status)
	}
}

// Metrics are in Prometheus' form, and count by path and result.
func TestMetrics(t *testing.T) {
	s := open(t, &canned{rank: falling}, credentials(t), nil)
	s.ask(t, http.MethodPost, prioritizePath, threeNodes)
	s.ask(t, http.MethodPost, prioritizePath, "{")
	_, text := s.ask(t, http.MethodGet, "/metrics", "")
	for _, want := range []string{
		`gnnsched_serve_requests_total{path="prioritize",result="ok"}`, `gnnsched_serve_requests_total{path="prioritize",result="bad_request"}`,
		`gnnsched_serve_request_duration_seconds_count{path="prioritize"}`, "gnnsched_serve_requests_inflight 0",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s", want)
		}
	}
}

// A wrong configuration ends with exit code 2 before anything is served.
func TestConfig(t *testing.T) {
	own := credentials(t)
	busy := open(t, &canned{rank: falling}, own, nil)
	for name, edit := range map[string]func(*Config){
		"address": func(c *Config) { c.Address = "localhost" }, "port": func(c *Config) { c.Port = 70000 },
		"no certificate":   func(c *Config) { c.CertFile = "" },
		"nobody could ask": func(c *Config) { c.ClientCAFile, c.TokenFile = "", "" }, "time": func(c *Config) { c.Timeout = 0 },
		"no such CA": func(c *Config) { c.ClientCAFile = "none" }, "CA is no PEM": func(c *Config) { c.ClientCAFile = own.TokenFile },
		"the key of another certificate": func(c *Config) { c.KeyFile = own.ClientKey },
		"tokens":                         func(c *Config) { c.TokenFile = own.CAFile },
		"taken":                          func(c *Config) { c.Port = busy.socket.Addr().(*net.TCPAddr).Port },
	} {
		c := testConfig(own)
		edit(&c)
		if _, err := New(c, &canned{}); exit.Code(err) != exit.Usage {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestCredentials(t *testing.T) {
	dir, now := filepath.Join(t.TempDir(), "a", "b"), time.Now()
	first, err := NewCredentials(dir, now)
	if err != nil || !first.Fresh {
		t.Fatalf("%+v, %v", first, err)
	}
	for _, file := range []string{first.KeyFile, first.ClientKey, first.TokenFile} {
		if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", file, info.Mode(), err)
		}
	}
	again, err := NewCredentials(dir, now.Add(300*24*time.Hour))
	if err != nil || again.Fresh {
		t.Errorf("valid files are made anew: %v", err)
	}
	before, _ := Fingerprint(first.CertFile)
	late, err := NewCredentials(dir, now.Add(360*24*time.Hour))
	if after, _ := Fingerprint(first.CertFile); err != nil || !late.Fresh || after == before || len(after) != 95 {
		t.Errorf("files about to expire stay: %v, %s", err, after)
	}
	fatal.If(t, os.WriteFile(late.KeyFile, []byte("damaged"), 0o600))
	if fixed, err := NewCredentials(dir, now); err != nil || !fixed.Fresh {
		t.Errorf("a damaged key stays: %v", err)
	}
	if _, err := NewCredentials(filepath.Join(first.CertFile, "x"), now); exit.Code(err) != exit.Usage {
		t.Errorf("no folder: %v", err)
	}
}

// Only the best node has 10, and the order stays.
func TestPriority(t *testing.T) {
	for score := int8(0); score < 100; score++ {
		if p := priority(score); p > priority(score+1) || p > 9 || p < 0 {
			t.Errorf("%d becomes %d, %d becomes %d", score, p, score+1, priority(score+1))
		}
	}
	if priority(100) != 10 {
		t.Error(priority(100))
	}
}

func FuzzQuestion(f *testing.F) {
	f.Add([]byte(threeNodes))
	f.Add([]byte(wholeNodes))
	f.Add([]byte(`{"Pod":{},"NodeNames":null,"Nodes":{}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		q, err := parseQuestion(body)
		if err != nil {
			if faultOf(err).status != http.StatusBadRequest {
				t.Fatal(err)
			}
			return
		}
		if q.pod == nil || q.nodes != nil && len(q.nodes.Items) != len(q.names) {
			t.Fatalf("%+v", q)
		}
		all := q.without(nil)
		if q.nodes == nil && len(*all.NodeNames) != len(q.names) || q.nodes != nil && len(all.Nodes.Items) != len(q.names) {
			t.Fatalf("not all nodes pass: %+v", all)
		}
	})
}

func FuzzPod(f *testing.F) {
	f.Add([]byte(goodPod))
	f.Add(bytes.Replace([]byte(goodPod), []byte(`"1"`), []byte(`"-1"`), 1))
	f.Add([]byte(`{"spec":{"containers":[{"name":"c","image":"i"}],"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{}]}}}}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		p, err := parsePod(body)
		if err != nil {
			if faultOf(err).status != http.StatusBadRequest {
				t.Fatal(err)
			}
			return
		}
		if p.Name == "" || p.Namespace == "" || p.Spec.NodeName != "" || len(p.Spec.Containers) == 0 {
			t.Fatalf("%+v", p)
		}
	})
}

// Upstream decodes the printed configuration strictly and finds it valid, and one step of the extender's score outweighs all of upstream's
// score plugins.
func TestSnippet(t *testing.T) {
	const dir = "/etc/kubernetes/gnnsched/"
	e := Extender{
		URL: "https://127.0.0.1:10270", CAFile: dir + "ca.crt", CertFile: dir + "client.crt", KeyFile: dir + "client.key",
		Timeout: 750 * time.Millisecond,
	}
	text := fatal.Value(e.YAML())(t)
	page := fatal.Value(os.ReadFile("../../docs/how-to/serve.md"))(t)
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
	text := fatal.Value(Role{Name: RoleName, Namespace: "kube-system"}.RBAC())(t)
	fatal.Golden(t, "rbac.yaml", string(text))
}

// The served document is valid OpenAPI, and describes exactly the served paths and their answers.
func TestOpenAPI(t *testing.T) {
	s := open(t, &canned{rank: falling}, credentials(t), nil)
	_, text := s.ask(t, http.MethodGet, "/openapi.json", "")
	doc := fatal.Value(openapi3.NewLoader().LoadFromData([]byte(text)))(t)
	fatal.If(t, doc.Validate(t.Context()))
	served := map[string]bool{}
	for _, r := range s.routes() {
		served[r.path] = true
		item := doc.Paths.Find(r.path)
		if item == nil || item.GetOperation(r.method) == nil {
			t.Errorf("%s %s is not described", r.method, r.path)
			continue
		}
		if security := item.GetOperation(r.method).Security; r.open != (security != nil && len(*security) == 0) {
			t.Errorf("%s: it is open to everybody: %v; the document says otherwise", r.path, r.open)
		}
	}
	for path := range doc.Paths.Map() {
		if !served[path] {
			t.Errorf("%s is described and not served", path)
		}
	}
	doc.Servers = openapi3.Servers{{URL: "https://" + s.Address()}}
	router := fatal.Value(gorillamux.NewRouter(doc))(t)
	for _, c := range []struct{ method, path, body string }{
		{http.MethodPost, "/v1/suggestions", goodPod}, {http.MethodPost, "/v1/suggestions", `{"spec":{}}`},
		{http.MethodGet, "/v1/state", ""}, {http.MethodGet, "/openapi.json", ""},
		{http.MethodPost, filterPath, threeNodes}, {http.MethodPost, filterPath, wholeNodes},
		{http.MethodPost, prioritizePath, threeNodes}, {http.MethodPost, prioritizePath, `{"Pod":{}}`},
	} {
		request := s.request(t, c.method, c.path, c.body)
		route, params, err := router.FindRoute(request)
		if err != nil {
			t.Fatalf("%s: %v", c.path, err)
		}
		resp := fatal.Value(s.client(t, true).Do(s.request(t, c.method, c.path, c.body)))(t)
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		fatal.If(t, err)
		in := &openapi3filter.RequestValidationInput{
			Request: request, PathParams: params, Route: route,
			Options: &openapi3filter.Options{AuthenticationFunc: openapi3filter.NoopAuthenticationFunc},
		}
		if err := openapi3filter.ValidateRequest(t.Context(), in); err != nil {
			t.Errorf("request to %s: %v", c.path, err)
		}
		out := &openapi3filter.ResponseValidationInput{
			RequestValidationInput: in, Status: resp.StatusCode, Header: resp.Header, Body: io.NopCloser(bytes.NewReader(body)),
		}
		if err := openapi3filter.ValidateResponse(t.Context(), out); err != nil {
			t.Errorf("answer of %s to %.60s: %v\n%s", c.path, c.body, err, strings.TrimSpace(string(body)))
		}
	}
}
