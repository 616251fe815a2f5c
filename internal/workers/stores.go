package workers

import (
	"context"
	"errors"

	"github.com/nats-io/nats.go/jetstream"
)

// Stream returns the stream with the name of a configuration, which it makes if the server has none.
func Stream(ctx context.Context, js jetstream.JetStream, c jetstream.StreamConfig) (jetstream.Stream, error) {
	s, err := js.Stream(ctx, c.Name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		c.Replicas = copies(js)
		s, err = js.CreateStream(ctx, c)
	}
	return s, err
}

// objects returns the bucket with the name of a configuration, which it makes if the server has none.
func objects(ctx context.Context, js jetstream.JetStream, c jetstream.ObjectStoreConfig) (jetstream.ObjectStore, error) {
	s, err := js.ObjectStore(ctx, c.Bucket)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		c.Replicas = copies(js)
		s, err = js.CreateObjectStore(ctx, c)
	}
	return s, err
}

// copies returns on how many servers data lie: three if the URL names so many.
func copies(js jetstream.JetStream) int {
	if len(js.Conn().Opts.Servers) >= 3 {
		return 3
	}
	return 1
}
