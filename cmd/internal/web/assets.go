package web

import (
	"embed"
	"io/fs"
	"net/http"
)

//go:embed assets
var embedded embed.FS

// files serves the page's own files.
func files() http.Handler {
	root, err := fs.Sub(embedded, "assets")
	if err != nil {
		panic(err) // the folder is part of the program
	}
	return http.FileServerFS(root)
}
