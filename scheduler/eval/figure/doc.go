// Package figure draws comparisons of policies as SVG, for documents. The same comparison
// gives the same bytes.
package figure
