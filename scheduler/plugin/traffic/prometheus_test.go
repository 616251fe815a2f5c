package traffic

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-base/metrics/testutil"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"
	testclock "k8s.io/utils/clock/testing"

	"gnnsched/internal/cluster"
	"gnnsched/internal/fatal"
	"gnnsched/internal/promapi"
)

// sample is an answer's line about two workloads of the namespace shop.
func sample(from, to, value string) string {
	return fmt.Sprintf(`{"metric":{"source_workload":%q,"source_workload_namespace":"shop","destination_workload":%q,"destination_workload_namespace":"shop"},"value":[1,%q]}`, from, to, value)
}

// What a Prometheus measures counts. When it fails, the last answer counts until it is too old, and then none does.
func TestMeasuredTraffic(t *testing.T) {
	answer, status := strings.Join([]string{sample("web", "api", "900"), sample("api", "db", "NaN"), sample("db", "api", "-5"),
		sample("", "api", "7"), sample("web", "elsewhere", "10")}, ","), http.StatusOK
	asked := ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r.FormValue("query")
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"status":"success","data":{"resultType":"vector","result":[%s]}}`, answer)
	}))
	defer server.Close()
	var log bytes.Buffer
	logger := textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(&log)))
	w := newWorldOf(t, Config{Network: links, Measured: Measured{Server: promapi.Server{Address: server.URL}}}, logger, 3)
	p := w.view.poller
	clock := p.asks.Clock.(*testclock.FakeClock)
	for i, owner := range []string{"web", "api", "db"} {
		w.run("shop", owner, w.nodes[i].Name)
	}
	check := func(when string, toAPI float64) {
		t.Helper()
		want := []cluster.Peer{{Row: 1, Pods: 1, Rate: toAPI}}
		if toAPI == 0 {
			want = []cluster.Peer{}
		}
		if d := cmp.Diff(want, w.attach(w.pod("shop", "web")).Peers); d != "" {
			t.Errorf("%s: %s", when, d)
		}
	}
	faulty, unknown := ignoredCount(t, ignoredFaulty), ignoredCount(t, ignoredUnknown)
	check("before the first measurement", 0)
	p.poll(t.Context(), logger)
	if asked != defaultQuery {
		t.Errorf("asked %q", asked)
	}
	check("measured", 450) // 900 of two pods
	answer = sample("web", "api", "940")
	p.poll(t.Context(), logger)
	check("about as before", 450)
	answer = sample("web", "api", "2000")
	p.poll(t.Context(), logger)
	check("more", 1000)
	if faulty, unknown := ignoredCount(t, ignoredFaulty)-faulty, ignoredCount(t, ignoredUnknown)-unknown; faulty != 3 || unknown != 1 {
		t.Errorf("%v faulty samples and %v of unknown workloads are counted, want 3 and 1", faulty, unknown)
	}
	for _, broken := range []string{`{}`, sample("web", "api", "0"), "nonsense"} {
		answer = broken
		p.poll(t.Context(), logger)
		check("a useless answer", 1000)
	}
	status = http.StatusInternalServerError
	p.poll(t.Context(), logger)
	check("failed", 1000)
	clock.Step(p.config.MaxAge.Duration + time.Second)
	check("too old", 0)
	status, answer = http.StatusOK, ""
	p.poll(t.Context(), logger)
	check("an answer without samples", 0)
	for text, times := range map[string]int{"Measuring traffic failed": 1, "too old; none counts": 1, "works again": 1,
		`reason="faulty" samples=3`: 1, `reason="unknown" samples=1`: 1, "without effect": 2} {
		if n := strings.Count(log.String(), text); n != times {
			t.Errorf("the log says %d times %q, want %d:\n%s", n, text, times, log.String())
		}
	}
}

func ignoredCount(t *testing.T, why ignored) float64 {
	t.Helper()
	return fatal.Value(testutil.GetCounterMetricValue(ignoredSamples.WithLabelValues(string(why))))(t)
}

// What is measured between two large workloads is a small part for each pair of their pods. It counts nevertheless.
func TestSmallMeasuredRates(t *testing.T) {
	w := newWorld(t, klog.Logger{}, 3)
	for i := range 600 {
		w.run("shop", []string{"api", "web"}[i%2], w.nodes[i%3].Name)
	}
	w.measure(map[pair]float64{{key{"shop", "web"}, key{"shop", "api"}}: 900})
	s := w.attach(w.pod("other", "quiet"))
	if rate := s.Nodes[0].Traffic.Rate; math.Abs(rate-900) > 10 {
		t.Errorf("the running pods exchange %v, want about 900", rate)
	}
	var all float64
	for _, p := range w.attach(w.pod("shop", "web")).Peers {
		all += p.Rate
	}
	if math.Abs(all-900./301) > 0.1 {
		t.Errorf("one more pod exchanges %v, want about %v", all, 900./301)
	}
}

func duration(d time.Duration) metav1.Duration { return metav1.Duration{Duration: d} }

func TestMeasuredConfig(t *testing.T) {
	for _, c := range []struct {
		measured Measured
		err      string
	}{
		{Measured{Server: promapi.Server{Address: "https://prometheus:9090"}}, ""},
		{Measured{Server: promapi.Server{Address: "http://127.0.0.1:9090", TokenFile: "t"}, Labels: []string{"a", "b", "c", "d"}, Query: "q"}, ""},
		{Measured{}, "traffic: measured: address must be a URL"},
		{Measured{Server: promapi.Server{Address: "http://prometheus:9090", TokenFile: "t"}}, "a token is only sent over https"},
		{Measured{Server: promapi.Server{Address: "https://p"}, Labels: []string{"a", "b"}}, "labels: there are 2, want 4"},
		{Measured{Server: promapi.Server{Address: "https://p"}, Interval: duration(time.Second)}, "interval is 1s, want a time from 5s to 10m"},
		{Measured{Server: promapi.Server{Address: "https://p"}, MaxAge: duration(time.Second)}, "maxAge is 1s, want at least interval (30s)"},
		{Measured{Server: promapi.Server{Address: "https://p"}, Timeout: duration(-1)}, "timeout is -1ns, want more than 0"},
	} {
		config := Config{Network: links, Measured: c.measured}
		if err := config.Default(); (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%+v: error %v, want %q", c.measured, err, c.err)
		}
	}
}

// rates returns rates between workloads of the namespace x.
func rates(of map[[2]string]float64) map[pair]float64 {
	out := map[pair]float64{}
	for names, rate := range of {
		out[pair{key{"x", names[0]}, key{"x", names[1]}}] = rate
	}
	return out
}

// The pods two steps away are those that talk to a partner of the pod, and not to the pod: its own siblings too. They share what it
// exchanges with the partner.
func TestBeyond(t *testing.T) {
	w := newWorld(t, klog.Logger{}, 6)
	web := w.pod("x", "web")
	run := func(owner string, node int) { w.run("x", owner, w.nodes[node].Name) }
	want := func(when string, rows map[int32]float64) {
		t.Helper()
		got := map[int32]float64{}
		for i, p := range w.attach(web).Beyond {
			got[p.Row] = p.Rate
			if i > 0 && p.Row <= w.attach(web).Beyond[i-1].Row {
				t.Errorf("%s: rows are not ascending", when)
			}
		}
		same := maps.EqualFunc(got, rows, func(a, b float64) bool { return math.Abs(a-b) <= 1 })
		if !same {
			t.Errorf("%s: %v, want %v", when, got, rows)
		}
	}
	run("db", 0)
	w.measure(rates(map[[2]string]float64{{"web", "api"}: 60}))
	want("nobody talks to the db", nil)
	run("api", 1)
	all := map[[2]string]float64{{"web", "api"}: 60, {"api", "db"}: 30}
	w.measure(rates(all))
	want("the api talks to the db", map[int32]float64{0: 60})
	all[[2]string{"log", "api"}], all[[2]string{"web", "api"}] = 1, 120
	w.measure(rates(all))
	run("db", 0)
	run("web", 3)
	run("log", 4)
	want("three workloads, four pods", map[int32]float64{0: 60, 3: 30, 4: 30})
	if s := w.attach(web); len(s.Peers) != 1 || s.Peers[0] != (cluster.Peer{Row: 1, Pods: 1, Rate: 60}) {
		t.Errorf("peers %v", s.Peers)
	}
	w.remove(slices.IndexFunc(w.pods, func(p *v1.Pod) bool { return keyOf(p).name == "api" }), false)
	want("without a pod of the api", map[int32]float64{0: 60, 3: 30, 4: 30})
	all[[2]string{"web", "db"}] = 9
	w.measure(rates(all))
	want("the db is a partner, which leads to the siblings too", map[int32]float64{3: 69, 4: 60})
	for i := range maxFlows {
		all[[2]string{fmt.Sprint("client-", i), "api"}] = 1
	}
	delete(all, [2]string{"web", "db"})
	w.measure(rates(all))
	want("all talk to the api", nil)
}

// Pods to which several partners lead count once, with what all of these exchange, and with no more than the most that counts.
func TestBeyondOverSeveralPartners(t *testing.T) {
	w := newWorld(t, klog.Logger{}, 3)
	w.run("x", "db", w.nodes[2].Name)
	w.run("x", "api", w.nodes[0].Name)
	w.run("x", "cart", w.nodes[0].Name)
	for _, c := range []struct{ api, cart, want float64 }{{60, 20, 80}, {maxRate, 0, maxRate}} {
		w.measure(rates(map[[2]string]float64{{"web", "api"}: c.api, {"web", "cart"}: c.cart, {"api", "db"}: 1, {"cart", "db"}: 1}))
		s := w.attach(w.pod("x", "web"))
		if want := (cluster.Peer{Row: 2, Pods: 1, Rate: c.want}); len(s.Beyond) != 1 || s.Beyond[0] != want {
			t.Errorf("%v, want %v", s.Beyond, want)
		}
	}
}

func TestConfigDefault(t *testing.T) {
	for _, c := range []struct {
		config Config
		err    string
	}{
		{config: Config{Network: links, Measured: Measured{Server: promapi.Server{Address: source}}}},
		{config: Config{Network: links, Measured: Measured{Server: promapi.Server{Address: source}}, RackLabel: "example.org/rack"}},
		{config: Config{Network: links}, err: "traffic: measured: address must be a URL"},
		{config: Config{}, err: "traffic: network: all distances are 0"},
		{config: Config{Network: links, RackLabel: "no label"}, err: `traffic: rackLabel "no label" is not the key of a label`},
		{config: Config{Network: cluster.Links{Zone: cluster.Hop{Latency: -1}}}, err: "zone.latency: -1 is not 0 to"},
	} {
		if err := c.config.Default(); (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%+v: error %v, want %q", c.config, err, c.err)
		}
	}
}

func TestLoad(t *testing.T) {
	for text, want := range map[string]string{
		"network:\n  zone: {latency: 1}\nmeasured: {address: 'https://p'}\n": "",
		"rackLabel: x\nnetwork: {}\n":                                        "all distances are 0",
		"network: {zones: {latency: 1}}\n":                                   `unknown field "zones"`,
		"network: {}\nnetwork: {}\n":                                         "already set",
		"traffic: {network: {}}\n":                                           `unknown field "traffic"`,
		"network: {distance: hops, node: {}}\n":                              `"hops" is not known`,
		"network: {node: {latency: 1ms}}\n":                                  "latency",
		"network: {zone: {latency: 1}}\n\x00":                                "control characters",
	} {
		path := filepath.Join(t.TempDir(), "network.yaml")
		fatal.If(t, os.WriteFile(path, []byte(text), 0o600))
		c, err := Load(path)
		if (err == nil) != (want == "") || err != nil && (!strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path)) {
			t.Errorf("%q: %+v, error %v, want %q", text, c, err, want)
		}
	}
	if c, err := Load(""); c != nil || err != nil {
		t.Errorf("no path: %+v, %v", c, err)
	}
	if _, err := Load(filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}
