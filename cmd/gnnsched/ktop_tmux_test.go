package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gnnsched/scheduler/decision"
	"gnnsched/scheduler/decision/record"
	"gnnsched/scheduler/shadow"
)

// asProgram is the environment variable that makes the test's binary the program.
const asProgram = "GNNSCHED_TEST_PROGRAM"

// TestMain makes the test's binary the program if it is called ktop, asProgram is set, or a worker that a test started calls it: else each
// would run all tests.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "ktop" || os.Getenv(asProgram) != "" || slices.Contains(os.Args, "--child") {
		main()
		return
	}
	state, err := os.MkdirTemp("", "gnnsched-state-") // where commands log by default
	if err == nil {
		err = os.Setenv("XDG_STATE_HOME", state)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	_ = os.RemoveAll(state) // of a test
	os.Exit(code)
}

// watchedServer is an API server of six nodes and two pods in which nothing changes. It returns a kubeconfig.
func watchedServer(t *testing.T) string {
	t.Helper()
	nodes := v1.NodeList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "NodeList"}, ListMeta: metav1.ListMeta{ResourceVersion: "1"}}
	for i := range 6 {
		nodes.Items = append(nodes.Items, v1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("node-", i), Labels: map[string]string{v1.LabelTopologyZone: "zone-a"}},
			Status: v1.NodeStatus{
				Allocatable: v1.ResourceList{"cpu": resource.MustParse("4"), "memory": resource.MustParse("8Gi"), "pods": resource.MustParse("110")},
				Conditions:  []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue}},
			},
		})
	}
	pods := v1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}, ListMeta: metav1.ListMeta{ResourceVersion: "1"}}
	for i, on := range []string{"node-1", "node-2"} {
		pods.Items = append(pods.Items, v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: fmt.Sprint("web-", i)}, Spec: v1.PodSpec{
			NodeName: on, SchedulerName: "gnn",
			Containers: []v1.Container{{Resources: v1.ResourceRequirements{Requests: v1.ResourceList{"cpu": resource.MustParse("1")}}}},
		}})
	}
	events := v1.EventList{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "EventList"}, Items: []v1.Event{{Reason: "Scheduled", Message: "assigned web-0"}},
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") })
	for path, list := range map[string]any{"/api/v1/nodes": nodes, "/api/v1/pods": pods, "/api/v1/events": events} {
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			switch {
			case r.URL.Query().Get("sendInitialEvents") != "": // the client then lists
				w.WriteHeader(http.StatusBadRequest)
			case r.URL.Query().Get("watch") != "":
				w.(http.Flusher).Flush()
				<-r.Context().Done()
			default:
				_ = json.NewEncoder(w).Encode(list) // the program may have gone
			}
		})
	}
	s := httptest.NewServer(mux)
	t.Cleanup(func() {
		s.CloseClientConnections() // of watches
		s.Close()
	})
	path := filepath.Join(t.TempDir(), "kubeconfig")
	config := fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"sim","clusters":[{"name":"sim","cluster":{"server":%q}}],"users":[{"name":"u","user":{}}],"contexts":[{"name":"sim","context":{"cluster":"sim","user":"u"}}]}`, s.URL)
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// pane is a program in a tmux of its own.
type pane struct {
	t      *testing.T
	socket string
}

func (p pane) tmux(args ...string) string {
	p.t.Helper()
	out, err := exec.Command("tmux", append([]string{"-u", "-f", "/dev/null", "-S", p.socket}, args...)...).CombinedOutput()
	if err != nil {
		p.t.Fatalf("tmux %v: %v\n%s", args, err, out)
	}
	return string(out)
}

// after sends keys, in tmux's names, and waits until all texts are on the screen.
func (p pane) after(keys []string, texts ...string) (screen string) {
	p.t.Helper()
	if len(keys) > 0 {
		p.tmux(append([]string{"send-keys"}, keys...)...)
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		screen = p.tmux("capture-pane", "-p")
		missing := ""
		for _, text := range texts {
			if !strings.Contains(screen, text) {
				missing = text
			}
		}
		if missing == "" {
			return screen
		}
		if time.Now().After(deadline) {
			p.t.Fatalf("after %q the screen does not show %q:\n%s", keys, missing, screen)
		}
	}
}

// line is the index of the screen's line that begins with text.
func line(t *testing.T, screen, text string) int {
	t.Helper()
	for i, l := range strings.Split(screen, "\n") {
		if strings.HasPrefix(l, text) {
			return i
		}
	}
	t.Fatalf("no line begins with %q:\n%s", text, screen)
	return 0
}

// TestKtopInTmux drives the program on a real terminal: keys, mouse, every view, a larger window, and the way out.
func TestKtopInTmux(t *testing.T) {
	if _, err := exec.LookPath("tmux"); err != nil {
		t.Skip("no tmux; apt-get install tmux")
	}
	book := record.NewBook(10, nil)
	book.Decided(decision.Decision{
		Number: 1, Profile: "gnn", Policy: "linear", Pod: decision.Pod{Namespace: "shop", Name: "web-1", UID: "u"}, At: time.Unix(1000, 0),
		Node: "node-2", Bound: true,
		Nodes: 6, Feasible: 6, Preferred: 6, Best: []decision.Candidate{{Node: "node-2", Score: 3}, {Node: "node-5", Score: 1}},
	})
	doors := http.NewServeMux()
	doors.Handle(record.Path, book)
	doors.HandleFunc(shadow.Path, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"version": "gnnsched.shadow/v1", "profile": "gnn", "of": ["default-scheduler"], "verdict": {"answer": "not worth it", "why": ["the cost would change by +2 %"]},
			"results": [{"what": "different", "text": "another node"}], "failures": [{"pod": "shop/big", "what": "unschedulable", "theirs": "node-4", "why": "6 Insufficient cpu"}],
			"recent": [{"pod": "shop/web-7", "what": "different", "theirs": "node-3", "node": "node-5", "gained": -0.25}]}`)
	})
	scheduler := httptest.NewTLSServer(doors)
	defer scheduler.Close()
	second := record.NewBook(10, nil)
	second.Decided(decision.Decision{
		Number: 1, Profile: "acdqn", Policy: "linear", Pod: decision.Pod{Namespace: "shop", Name: "db-1", UID: "v"}, At: time.Unix(1001, 0),
		Node: "node-4", Bound: true,
	})
	secondDoors := http.NewServeMux()
	secondDoors.Handle(record.Path, second)
	beside := httptest.NewTLSServer(secondDoors)
	defer beside.Close()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	program := filepath.Join(dir, "ktop")
	if err := os.Symlink(self, program); err != nil {
		t.Fatal(err)
	}
	token := filepath.Join(dir, "token") // client-go does not read one from a kubeconfig of a server without TLS
	if err := os.WriteFile(token, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := pane{t, filepath.Join(dir, "tmux")}
	t.Setenv("LC_ALL", "C.UTF-8")
	command := fmt.Sprintf("%s --kubeconfig %s --server %s --server %s --token-file %s --interval 200ms; echo left with $?; cat",
		program, watchedServer(t), scheduler.URL, beside.URL, token)
	p.tmux("new-session", "-d", "-x", "80", "-y", "24", command)
	t.Cleanup(func() { p.tmux("kill-server") })

	p.after(nil, "ktop · sim", "NAME▲", "node-5", "6 nodes · all ready")
	p.after([]string{"?"}, "Keys", "half a page down")
	p.after([]string{"Escape"}, "NAME▲")
	p.after([]string{"m", "Right", "Right"}, "to 100%", "node-2 · Ready")
	p.after([]string{"Enter"}, "WORKLOAD", "shop/web-1", "node-5", "node-2 · Ready")
	p.after([]string{"Escape"}, "to 100%")
	hosts := []string{strings.TrimPrefix(scheduler.URL, "https://"), strings.TrimPrefix(beside.URL, "https://")}
	p.after([]string{"l"}, "DEFAULT", "shop/web-1", "shop/db-1", "gnn at "+hosts[0]+" 1")
	p.after([]string{"v"}, "acdqn at "+hosts[1], "gnn at "+hosts[0], "shop/web-1", "shop/db-1", "2 on 2 nodes, most 1")
	p.after([]string{"e"}, "assigned web-0")
	p.after([]string{":", "s", "h", "a", "d", "o", "w", "Enter"}, "NOT WORTH IT · gnn", "the cost would change by +2 %", "shop/web-7", "-0.25",
		"another node")
	p.after([]string{"f"}, "shop/big", "6 Insufficient cpu")
	p.after([]string{"o"}, hosts[1]+" (o: next of 2)", "the scheduler is in the shadow of no other one")
	beside.Close()
	p.after([]string{"v"}, hosts[1]+": ", "acdqn at "+hosts[1], "gnn at "+hosts[0])
	p.after([]string{":", "p", "e", "n", "Enter"}, "no pod is pending")
	p.after([]string{"/", "x", "Enter"}, "filter x")
	p.after([]string{"Escape"}, "? help") // a letter right behind Escape would be Alt and the letter
	screen := p.after([]string{"p"}, "NAME▲", "node-1")
	click := fmt.Sprintf("\x1b[<0;3;%dM", line(t, screen, "node-1 ")+1)
	p.after([]string{"-l", click})
	p.after([]string{"-l", click}, "node-1 · Ready", "shop/web-0")
	p.tmux("resize-window", "-x", "200", "-y", "50")
	screen = p.after(nil, "SCHEDULER")
	if got := strings.Count(screen, "\n"); got != 50 {
		t.Errorf("%d lines in a window of 50:\n%s", got, screen)
	}
	p.after([]string{"q"}, "left with 0")
}
