package cleanup

import (
	"context"
	"fmt"
	"slices"

	"github.com/dustin/go-humanize/english"
)

// Inventory lists everything that concerns the removal of a scope.
type Inventory struct {
	Found
	Namespaces []Namespace `json:"namespaces"` // made by the scope's runs, including those to keep
}

// Inventory lists the scope's objects and the namespaces that its runs made.
func (c *Client) Inventory(ctx context.Context, s Scope) (Inventory, error) {
	found, err := c.Find(ctx, s)
	if err != nil {
		return Inventory{}, err
	}
	spaces, err := c.Namespaces(ctx, s)
	return Inventory{Found: found, Namespaces: spaces}, err
}

// Empty reports whether there is nothing to remove.
func (i Inventory) Empty() bool { return len(i.Objects) == 0 && len(removable(i.Namespaces)) == 0 }

// String counts the objects that can be removed: "3 deployments, 3 replica sets, 21 pods and 1 namespace". It names resource
// claims and priority classes only if there are any.
func (i Inventory) String() string {
	plural := func(n int, noun string) string { return fmt.Sprintf("%d %s", n, english.PluralWord(n, noun, "")) }
	n := i.Counts()
	claimed := ""
	if n.Claims > 0 {
		claimed = ", " + plural(n.Claims, "resource claim")
	}
	if n.Classes > 0 {
		claimed += ", " + plural(n.Classes, "priority class")
	}
	return fmt.Sprintf("%s, %s, %s%s and %s", plural(n.Deployments, "deployment"), plural(n.ReplicaSets, "replica set"),
		plural(n.Pods, "pod"), claimed,
		plural(len(removable(i.Namespaces)), "namespace"))
}

// removable returns the namespaces that can be deleted.
func removable(all []Namespace) []Namespace {
	return slices.DeleteFunc(slices.Clone(all), func(n Namespace) bool { return n.Keep != "" })
}

// Progress is the state of RemoveAll under way.
type Progress struct {
	Done       float64 // removed fraction of the objects, 0 to 1
	Left       Counts  // objects still there
	Namespaces int     // namespaces being removed; 0 until the objects are gone
}

// Phase names the step: "removing" objects, then "namespaces".
func (p Progress) Phase() string {
	if p.Namespaces > 0 {
		return "namespaces"
	}
	return "removing"
}

func (p Progress) String() string {
	if p.Namespaces > 0 {
		return fmt.Sprintf("removing %d namespace(s)", p.Namespaces)
	}
	return fmt.Sprintf("removing: %d objects left, %d of them pods", p.Left.Total(), p.Left.Pods)
}

// RemoveAll deletes the scope's objects, then the namespaces that are empty without them. It returns all namespaces that the scope's runs
// made; a namespace that stays has a reason. progress is called repeatedly from the caller's goroutine.
func (c *Client) RemoveAll(ctx context.Context, s Scope, progress func(Progress)) ([]Namespace, error) {
	total := 0
	err := c.Remove(ctx, s, func(left Counts) {
		total = max(total, left.Total())
		p := Progress{Done: 1, Left: left}
		if total > 0 {
			p.Done = 1 - float64(left.Total())/float64(total)
		}
		progress(p)
	})
	if err != nil {
		return nil, err
	}
	// Look again: a namespace may have got new objects in the meantime.
	var spaces []Namespace
	err = c.retry(ctx, func() error {
		spaces, err = c.Namespaces(ctx, s)
		return err
	})
	if err != nil {
		return nil, err
	}
	if n := len(removable(spaces)); n > 0 {
		progress(Progress{Done: 1, Namespaces: n})
		err = c.RemoveNamespaces(ctx, spaces)
	}
	return spaces, err
}
