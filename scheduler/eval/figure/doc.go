// Package figure draws a comparison of policies as an SVG image. The same comparison gives the
// same bytes.
package figure
