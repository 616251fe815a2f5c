package cleanup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"
)

const (
	poll     = 300 * time.Millisecond // shortest pause between two lists of the remaining objects
	pollMax  = 20 * time.Second       // longest such pause
	listCost = 10                     // up to pollMax, a pause is at least this many times as long as the last list took
	again    = 5 * time.Second        // time after which remaining objects are deleted again
)

// Remove deletes the scope's objects and waits until they are gone. progress, if not nil, is
// called repeatedly from the caller's goroutine with the number of remaining objects. If ctx ends
// first, the error names the remaining objects.
func (c *Client) Remove(ctx context.Context, s Scope, progress func(left Counts)) error {
	if progress == nil {
		progress = func(Counts) {}
	}
	for {
		left, err := c.find(ctx, s)
		if err != nil {
			return withRemaining(ctx, left, err)
		}
		progress(left.Counts())
		if len(left.Objects) == 0 {
			return nil
		}
		if left, err = c.deleteAndWatch(ctx, s, left, progress); err != nil {
			return withRemaining(ctx, left, err)
		}
	}
}

// deleteAndWatch requests the deletions once. It lists the remaining objects until none is left
// or until it is time to request the deletions again, because controllers may have made new pods.
func (c *Client) deleteAndWatch(ctx context.Context, s Scope, left Found, progress func(Counts)) (Found, error) {
	// Deleting a collection of ten thousand pods takes many seconds, so it runs in the
	// background while this goroutine reports progress.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan error, 1)
	go func(in []string) { done <- c.deleteCollections(ctx, s, in) }(left.namespaces())
	requested, wait := false, poll
	for start := c.Clock.Now(); len(left.Objects) > 0 && !(requested && c.Clock.Since(start) > again); {
		select {
		case err := <-done:
			if err != nil {
				return left, err
			}
			requested, done = true, nil
			start = c.Clock.Now()
			continue
		case <-ctx.Done():
		case <-c.Clock.After(wait):
		}
		begin := c.Clock.Now()
		next, err := c.find(ctx, s)
		wait = min(max(poll, listCost*c.Clock.Since(begin)), pollMax) // lists slow the server's deletions down
		if err != nil {
			if done != nil {
				cancel()
				<-done
			}
			return left, err
		}
		left = next
		progress(left.Counts())
	}
	cancel()
	if done != nil {
		<-done // no further request is needed: nothing is left
	}
	return left, nil
}

// find is Find, with retries.
func (c *Client) find(ctx context.Context, s Scope) (left Found, err error) {
	err = c.retry(ctx, func() error {
		left, err = c.Find(ctx, s)
		return err
	})
	return left, err
}

// withRemaining adds the remaining objects to err if ctx has ended.
func withRemaining(ctx context.Context, left Found, err error) error {
	if ctx.Err() == nil || len(left.Objects) == 0 {
		return err
	}
	o := left.Objects[len(left.Objects)-1]
	err = ctx.Err()
	if cause := context.Cause(ctx); !errors.Is(cause, err) {
		err = fmt.Errorf("%w: %w", err, cause)
	}
	return fmt.Errorf("%d objects remain, among them %s %s in namespace %s: %w", len(left.Objects), o.Kind, o.Name, o.Namespace, err)
}

// Formats are the output formats of [Inventory.Write].
var Formats = []string{"table", "name", "json"}

// Write writes the inventory: as a table with a row for each run and namespace, as names that
// kubectl delete accepts, or as JSON.
func (i Inventory) Write(w io.Writer, format string) error {
	switch format {
	case "table":
		return i.writeTable(w)
	case "name":
		return i.writeNames(w)
	case "json":
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		return enc.Encode(i)
	}
	return fmt.Errorf("unknown output format %q", format)
}

func (i Inventory) writeNames(w io.Writer) error {
	for _, o := range i.Objects {
		line := fmt.Sprintf("%s/%s -n %s\n", o.Kind, o.Name, o.Namespace)
		if o.Kind == classes {
			line = fmt.Sprintf("%s/%s\n", o.Kind, o.Name)
		}
		if _, err := io.WriteString(w, line); err != nil {
			return err
		}
	}
	for _, n := range removable(i.Namespaces) {
		if _, err := fmt.Fprintf(w, "namespaces/%s\n", n.Name); err != nil {
			return err
		}
	}
	return nil
}

func (i Inventory) writeTable(w io.Writer) error {
	if i.Empty() {
		_, err := fmt.Fprintln(w, "nothing to remove")
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprintln(t, "NAMESPACE\tRUN\tDEPLOYMENTS\tREPLICASETS\tPODS\tCLAIMS")
	for _, g := range i.Groups() {
		fmt.Fprintf(t, "%s\t%s\t%d\t%d\t%d\t%d\n", g.Namespace, g.Run, g.Deployments, g.ReplicaSets, g.Pods, g.Claims)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, o := range i.Objects {
		if o.Kind != classes {
			continue
		}
		if _, err := fmt.Fprintf(w, "priority class %s\n", o.Name); err != nil {
			return err
		}
	}
	for _, n := range removable(i.Namespaces) {
		if _, err := fmt.Fprintf(w, "namespace %s\n", n.Name); err != nil {
			return err
		}
	}
	return nil
}
