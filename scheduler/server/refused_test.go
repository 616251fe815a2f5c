package server

import (
	"context"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gnnsched/internal/kubeconfig"
	"gnnsched/internal/refusal/refusaltest"
	"gnnsched/scheduler/policy/preference"
)

// A scheduler that may not read something says so once for each verb, and waits for the right. Kubernetes' own log of each try is
// dropped.
func TestWaitsForRights(t *testing.T) {
	cluster := refusaltest.New(t, "list services", "watch services")
	p := Profile{SchedulerName: "gnn", Args: Args{Variant: "gnn", Deadline: metav1.Duration{Duration: time.Second},
		Preferences: preference.First}}
	file, remove, err := WriteTemporary(Config{Profiles: []Profile{p}, QPS: 1000}, kubeconfig.Target{Kubeconfig: cluster.Kubeconfig(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(remove)
	var log lines
	ctx, stop := context.WithCancel(log.context(t.Context()))
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx, file, Endpoint{}, nil) }()
	const tries = 6
	l := &lab{}
	l.until(t, "tries", func() error {
		select {
		case err := <-ended:
			t.Fatalf("it ended: %v", err)
		default:
		}
		if n := cluster.Refused(); n < tries {
			return fmt.Errorf("there were %d; the log is %q", n, log.text())
		}
		return nil
	})
	cluster.Forbid()
	log.wait(t, l, "May list services now")
	log.wait(t, l, "May watch services now")
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if log.count("May not list services") != 1 || log.count("May not watch services") != 1 || log.count("gnnsched deploy --print") != 2 ||
		log.count("forbidden") != 0 {
		t.Errorf("after %d tries the log is %q", tries, log.text())
	}
}
