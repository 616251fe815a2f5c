package serve

import (
	_ "embed"
	"net/http"
	"sync"

	"sigs.k8s.io/yaml"
)

//go:embed openapi.yaml
var openapi []byte

// document returns the OpenAPI document as JSON.
var document = sync.OnceValues(func() ([]byte, error) { return yaml.YAMLToJSON(openapi) })

// serveDocument answers with the OpenAPI document.
func serveDocument(w http.ResponseWriter, _ *http.Request) {
	text, err := document()
	if err != nil {
		refuse(w, "openapi", err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(text)
}
