package live

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/client-go/kubernetes/scheme"

	"gnnsched/internal/exit"
)

// The keys of the pods and the claims in etcd begin with these.
const (
	podKeys   = "/registry/pods/" + namespace + "/"
	claimKeys = "/registry/resourceclaims/" + namespace + "/"
)

// observer reads the history of the pods and the claims from etcd into a book, in one order. etcd keeps every
// state of every object for five minutes at least, and the watch continues at the next revision after the
// cluster was killed, so the observer misses no state.
type observer struct {
	book     *book
	client   *clientv3.Client
	revision int64 // the latest that was read
}

func newObserver(b *book, socket string) (*observer, error) {
	if _, err := os.Stat(socket); err != nil {
		return nil, exit.New(exit.Usage, fmt.Errorf("find the cluster's etcd: %w", err),
			"paths of sockets are limited: choose a shorter folder with TMPDIR")
	}
	retry := grpc.ConnectParams{
		Backoff: backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, MaxDelay: time.Second}, MinConnectTimeout: time.Second,
	}
	c, err := clientv3.New(clientv3.Config{
		Endpoints: []string{"unix://" + socket}, Logger: zap.NewNop(), DialOptions: []grpc.DialOption{grpc.WithConnectParams(retry)},
	})
	if err != nil {
		return nil, fmt.Errorf("connect to the cluster's etcd: %w", err)
	}
	return &observer{book: b, client: c}, nil
}

// run reads the history from the beginning until ctx ends; then it returns nil.
func (o *observer) run(ctx context.Context) error {
	for ctx.Err() == nil {
		from := o.revision + 1
		// One watch from the first key to the last, because two would not come in one order.
		for r := range o.client.Watch(ctx, podKeys, clientv3.WithRange(clientv3.GetPrefixRangeEnd(claimKeys)), clientv3.WithRev(from)) {
			if r.CompactRevision > 0 {
				return fmt.Errorf("the history of etcd from revision %d to %d is compacted: the count has a gap", from, r.CompactRevision)
			}
			for _, e := range r.Events {
				if err := o.read(e); err != nil {
					return err
				}
			}
		}
		pause(ctx, pollEvery)
	}
	return nil
}

// read counts one event.
func (o *observer) read(e *clientv3.Event) error {
	if e.Kv.ModRevision < o.revision {
		return errors.New("the revisions of etcd went backwards: it lost writes that it had confirmed")
	}
	o.revision = e.Kv.ModRevision
	pod, isPod := strings.CutPrefix(string(e.Kv.Key), podKeys)
	claim, isClaim := strings.CutPrefix(string(e.Kv.Key), claimKeys)
	gone := e.Type == clientv3.EventTypeDelete
	switch {
	case !isPod && !isClaim:
		return nil
	case isPod && gone:
		o.book.gone(o.revision, pod)
		return nil
	case gone:
		o.book.goneClaim(o.revision, claim)
		return nil
	}
	obj, _, err := scheme.Codecs.UniversalDeserializer().Decode(e.Kv.Value, nil, nil)
	if err != nil {
		return fmt.Errorf("read %s from etcd: %w", e.Kv.Key, err)
	}
	switch x := obj.(type) {
	case *corev1.Pod:
		o.book.see(o.revision, x)
	case *resourceapi.ResourceClaim:
		o.book.seeClaim(o.revision, x)
	default:
		return fmt.Errorf("read %s from etcd: it is a %T", e.Kv.Key, obj)
	}
	return nil
}
