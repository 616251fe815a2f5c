// Package cleanup finds and deletes the objects that workload runs made on a cluster. It finds
// them by their labels and touches nothing else.
//
//	cleaner, err := cleanup.New(restConfig)
//	scope := cleanup.Scope{Run: "20251120-101010-ab12"} // or Scope{} for every run
//	found, err := cleaner.Inventory(ctx, scope)
//	fmt.Println("removing", found)
//	namespaces, err := cleaner.RemoveAll(ctx, scope, func(cleanup.Progress) {})
//
// Objects are deleted in pages of a few hundred, one request each, because an API server ends a
// request after a minute. A request that fails is repeated. A namespace is deleted only if a run
// made it and it holds nothing else.
package cleanup
