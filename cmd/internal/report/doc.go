// Package report makes the HTML page of --html of `gnnsched eval` and `gnnsched compare`.
//
// The page works offline and without JavaScript. Its Content-Security-Policy allows its own style and script, by
// their hashes, and nothing else. Charts are SVG, heat maps are PNG in data URLs; tables and labels say the same. The
// script moves through the time of the heat maps and searches decisions. Everything that a run wrote goes through
// html/template or html.EscapeString, so a pod's name cannot become markup.
//
// A page has at most 3,000,000 bytes. What does not fit is thinned out, and the page says so.
package report
