package cluster

// Cache holds one value for each node and for each different request of a pod. The zero value
// is empty and ready to use. It is not safe for concurrent use.
type Cache[V any] struct {
	columns map[Resources][]Entry[V]
}

// Entry is the value of one node, in the state that the node had when the value was computed.
type Entry[V any] struct {
	version Version
	Value   V
}

// maxColumns bounds the memory for workloads in which every pod requests something else.
const maxColumns = 512

// Column returns the entries for pods that request r, one for each row of a snapshot with the
// given number of rows. It may be longer than that. It is valid until the next call.
func (c *Cache[V]) Column(r Resources, rows int) []Entry[V] {
	column := c.columns[r]
	if len(column) >= rows {
		return column
	}
	if c.columns == nil || len(c.columns) >= maxColumns {
		c.columns = map[Resources][]Entry[V]{}
	}
	column = append(column, make([]Entry[V], rows-len(column))...)
	c.columns[r] = column
	return column
}

// Clear drops all values.
func (c *Cache[V]) Clear() { c.columns = nil }

// Valid reports whether the entry holds the value of n in its present state.
func (e *Entry[V]) Valid(n *Node) bool { return n.Unchanged(e.version) }

// Set stores the value of n in its present state.
func (e *Entry[V]) Set(n *Node, v V) { *e = Entry[V]{n.Version, v} }
