package kwok

import (
	"encoding/hex"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"gnnsched/internal/fatal"
	"gnnsched/internal/logging"
)

func init() {
	// Kubernetes' log would hide the tests' output.
	logging.DropKlog()
}

// upstreamLeaks are goroutines of Kubernetes and kwok that cannot be stopped or that end some
// seconds later. Each start has a few.
var upstreamLeaks = []goleak.Option{
	// kwok's queues run until the process ends: three for each start.
	goleak.IgnoreAnyFunction("sigs.k8s.io/kwok/pkg/utils/queue.(*weightDelayingQueue[...]).loopWorker"),
	// kwok does not wait for the end of its informers.
	goleak.IgnoreAnyFunction("sigs.k8s.io/kwok/pkg/utils/informer.newCacheInformer[...].func2"),
	// kwok hands a pod or node to workers that may have ended already: one of each for a stop under load.
	goleak.IgnoreTopFunction("sigs.k8s.io/kwok/pkg/kwok/controllers.(*PodController).watchResources"),
	goleak.IgnoreTopFunction("sigs.k8s.io/kwok/pkg/kwok/controllers.(*NodeController).watchResources"),
	// So do its reflectors, whose watches then wait for them.
	goleak.IgnoreAnyFunction("sigs.k8s.io/kwok/pkg/utils/informer.dummyCache[...].func1"), // a new object
	goleak.IgnoreAnyFunction("sigs.k8s.io/kwok/pkg/utils/informer.dummyCache[...].func2"), // a changed one
	goleak.IgnoreAnyFunction("sigs.k8s.io/kwok/pkg/utils/informer.dummyCache[...].func3"), // a deleted one
	goleak.IgnoreTopFunction("k8s.io/apimachinery/pkg/watch.(*StreamWatcher).receive"),
	// kwok never shuts down its event broadcaster: two for each start.
	goleak.IgnoreAnyFunction("k8s.io/apimachinery/pkg/watch.(*Broadcaster).loop"),
	goleak.IgnoreAnyFunction("k8s.io/client-go/tools/record.(*eventBroadcasterImpl).StartEventWatcher.func1"),
	// Each consistent read starts a timer that is not stopped. The second name is of Kubernetes 1.37.
	goleak.IgnoreAnyFunction("k8s.io/apiserver/pkg/storage/cacher.(*watchCache).waitUntilFreshAndBlock.func2"),
	goleak.IgnoreAnyFunction("k8s.io/apiserver/pkg/storage/cacher.(*watchCache).waitUntilFreshLocked.func2"),
	// Loops that are meant to run forever, such as the log health check: one for each process.
	goleak.IgnoreAnyFunction("k8s.io/apimachinery/pkg/util/wait.Forever"),
}

// checkLeaks fails the test if goroutines remain at its end, except upstreamLeaks.
func checkLeaks(t *testing.T) {
	t.Helper()
	ignore := append([]goleak.Option{goleak.IgnoreCurrent()}, upstreamLeaks...)
	t.Cleanup(func() { goleak.VerifyNone(t, ignore...) })
}

// checkSockets checks that this process listens only on loopback addresses.
func checkSockets(t *testing.T) {
	t.Helper()
	mine := map[string]bool{}
	fds, err := filepath.Glob("/proc/self/fd/*")
	fatal.If(t, err)
	for _, fd := range fds {
		target, err := os.Readlink(fd)
		if inode, ok := strings.CutPrefix(target, "socket:["); err == nil && ok {
			mine[strings.TrimSuffix(inode, "]")] = true
		}
	}
	listening := 0
	for _, table := range []string{"/proc/self/net/tcp", "/proc/self/net/tcp6", "/proc/self/net/udp", "/proc/self/net/udp6"} {
		b, err := os.ReadFile(table)
		fatal.If(t, err)
		for _, line := range strings.Split(string(b), "\n")[1:] {
			f := strings.Fields(line)
			const local, state, inode = 1, 3, 9
			if len(f) <= inode || !mine[f[inode]] || f[state] != "0A" && !strings.Contains(table, "udp") {
				continue
			}
			listening++
			if !loopbackHex(t, f[local]) {
				t.Errorf("%s: listens on %s", table, f[local])
			}
		}
	}
	if listening != 1 {
		t.Errorf("%d listening sockets, want only the API server's", listening)
	}
}

// loopbackHex reports whether an address in the kernel's format, such as 0100007F:C350, is a
// loopback address.
func loopbackHex(t *testing.T, s string) bool {
	t.Helper()
	host, port, _ := strings.Cut(s, ":")
	b, err := hex.DecodeString(host)
	fatal.If(t, err)
	if _, err := strconv.ParseUint(port, 16, 16); err != nil {
		t.Fatal(err)
	}
	if len(b) == 4 {
		return b[3] == 127 // little endian
	}
	return host == "00000000000000000000000001000000"
}

func TestLoopbackHex(t *testing.T) {
	for s, want := range map[string]bool{
		"0100007F:1F90": true, "00000000:1F90": false, "0101A8C0:0050": false,
		"00000000000000000000000001000000:1F90": true, "00000000000000000000000000000000:1F90": false,
	} {
		if got := loopbackHex(t, s); got != want {
			t.Errorf("%s: %v", s, got)
		}
	}
}
