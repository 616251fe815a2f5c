package soak

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/client-go/kubernetes/scheme"
)

// observer reads the history of the pods and the claims of a namespace from etcd into a book, in one order. etcd keeps every
// state of every object for five minutes at least, and the watch continues at the next revision after the
// cluster was killed, so the observer misses no state.
type observer struct {
	book         *book
	client       *clientv3.Client
	pods, claims string // prefixes of the keys

	revision int64 // the latest that was read
}

func newObserver(b *book, socket, namespace string) (*observer, error) {
	retry := grpc.ConnectParams{
		Backoff: backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, MaxDelay: time.Second}, MinConnectTimeout: time.Second,
	}
	c, err := clientv3.New(clientv3.Config{
		Endpoints: []string{"unix://" + socket}, Logger: zap.NewNop(), DialOptions: []grpc.DialOption{grpc.WithConnectParams(retry)},
	})
	if err != nil {
		return nil, fmt.Errorf("connect to the cluster's etcd: %w", err)
	}
	return &observer{book: b, client: c, pods: "/registry/pods/" + namespace + "/", claims: "/registry/resourceclaims/" + namespace + "/"}, nil
}

// run reads the history from the beginning until ctx ends; then it returns nil.
func (o *observer) run(ctx context.Context) error {
	for ctx.Err() == nil {
		from := o.revision + 1
		// One watch from the first key to the last, because two would not come in one order.
		for r := range o.client.Watch(ctx, o.pods, clientv3.WithRange(clientv3.GetPrefixRangeEnd(o.claims)), clientv3.WithRev(from)) {
			if r.CompactRevision > 0 {
				return fmt.Errorf("the history of etcd from revision %d to %d is compacted: the count has a gap", from, r.CompactRevision)
			}
			for _, e := range r.Events {
				if err := o.read(e); err != nil {
					return err
				}
			}
		}
		pause(ctx, 200*time.Millisecond)
	}
	return nil
}

// read counts one event.
func (o *observer) read(e *clientv3.Event) error {
	if e.Kv.ModRevision < o.revision {
		return errors.New("the revisions of etcd went backwards: it lost writes that it had confirmed")
	}
	o.revision = e.Kv.ModRevision
	pod, isPod := strings.CutPrefix(string(e.Kv.Key), o.pods)
	claim, isClaim := strings.CutPrefix(string(e.Kv.Key), o.claims)
	gone := e.Type == clientv3.EventTypeDelete
	switch {
	case !isPod && !isClaim:
		return nil
	case isPod && gone:
		o.book.left(o.revision, pod)
		return nil
	case gone:
		o.book.leftClaim(o.revision, claim)
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

func (o *observer) close() error { return o.client.Close() }
