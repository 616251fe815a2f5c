package traffic

import (
	"bytes"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-base/metrics/testutil"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"
	testclock "k8s.io/utils/clock/testing"

	"gnnsched/internal/cluster"
	"gnnsched/internal/fatal"
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
	w := newWorldOf(t, Config{Network: links, Measured: Measured{Address: server.URL}}, logger, 3)
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
	n, err := testutil.GetCounterMetricValue(ignoredSamples.WithLabelValues(string(why)))
	fatal.If(t, err)
	return n
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
		{Measured{Address: "https://prometheus:9090"}, ""},
		{Measured{Address: "http://127.0.0.1:9090", TokenFile: "t", Labels: []string{"a", "b", "c", "d"}, Query: "q"}, ""},
		{Measured{}, "traffic: measured: address must be a URL"},
		{Measured{Address: "http://prometheus:9090", TokenFile: "t"}, "a token is only sent over https"},
		{Measured{Address: "https://p", Labels: []string{"a", "b"}}, "labels: there are 2, want 4"},
		{Measured{Address: "https://p", Interval: duration(time.Second)}, "interval is 1s, want a time from 5s to 10m"},
		{Measured{Address: "https://p", MaxAge: duration(time.Second)}, "maxAge is 1s, want at least interval (30s)"},
		{Measured{Address: "https://p", Timeout: duration(-1)}, "timeout is -1ns, want more than 0"},
	} {
		config := Config{Network: links, Measured: c.measured}
		if err := config.Default(); (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%+v: error %v, want %q", c.measured, err, c.err)
		}
	}
}
