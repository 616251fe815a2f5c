// Package usage holds the published score plugins that place pods by measured usage, as policies for the
// simulator and for scheduler profiles. A node without a measurement is scored by what its pods request.
//
// Differences from the originals: pods are predicted as a whole, not container by container; a node
// without measurement is scored by requests instead of 0; and a node that an original would filter is
// scored below all others.
package usage
