package architecture

import (
	"go/ast"
	"go/token"
	"slices"
	"strings"
	"testing"
)

// exported are the names that stay exported although no other package uses them, with the reason.
var exported = map[string]string{
	"scheduler/sim.Given.Leave":                                      "workers get it as JSON",
	"gnn/torch.TraineeState.Moments":                                 "state files hold it",
	"scheduler/learn/value.State.Stored":                             "state files hold it",
	"scheduler/autoscale/karpenter.provider.GetInstanceTypes":        "Karpenter calls it",
	"scheduler/autoscale/karpenter.provider.GetSupportedNodeClasses": "Karpenter calls it",
	"scheduler/autoscale/karpenter.singles.ComputeCommands":          "Karpenter's interface has it",
	"scheduler/autoscale/karpenter.multis.ComputeCommands":           "Karpenter's interface has it",
}

// methodsOfInterfaces are methods that the standard library calls through its interfaces.
var methodsOfInterfaces = []string{
	"As", "Error", "Is", "Len", "Less", "MarshalJSON", "MarshalText", "Read", "RoundTrip", "String", "Swap",
	"UnmarshalJSON", "UnmarshalText", "Unwrap", "Write",
}

// TestExports finds exported names that no other package uses. It reads syntax alone, so that it also
// sees code behind build tags: a method or a field counts as used where any other package has a
// selector or a composite literal with its name. Fields with a tag and types that exported declarations
// mention belong to an encoding or to a signature, and methods whose comment says "implements" belong to
// an interface.
func TestExports(t *testing.T) {
	all := sources(t)
	u := usesOf(all)
	found := map[string]bool{}
	for _, s := range all {
		if s.test || s.ast.Name.Name == "main" {
			continue
		}
		for _, x := range exportsOf(s) {
			if u.uses(s.folder, x) {
				continue
			}
			name := s.folder + "." + x.name
			found[name] = true
			if exported[name] == "" {
				t.Errorf("%s:%d: no other package uses %s: unexport it, or list it with its reason", s.path, s.line(x.pos), name)
			}
		}
	}
	for name := range exported {
		if !found[name] {
			t.Errorf("%s is listed as an exception but needs none", name)
		}
	}
}

// export is one exported declaration.
type export struct {
	name  string // Type.Name for methods and fields
	short string // Name
	pos   token.Pos
	// member tells that it is a method or a field, which is used through a value and not through
	// the package's name.
	member bool
	method bool
}

// exportsOf lists a file's exported declarations to which the rule applies.
func exportsOf(s source) (out []export) {
	for _, d := range s.ast.Decls {
		switch x := d.(type) {
		case *ast.FuncDecl:
			switch {
			case !x.Name.IsExported():
			case x.Recv == nil:
				out = append(out, export{name: x.Name.Name, short: x.Name.Name, pos: x.Pos()})
			case !strings.Contains(x.Doc.Text(), "implements"):
				out = append(out, export{name: receiver(x) + "." + x.Name.Name, short: x.Name.Name, pos: x.Pos(), member: true, method: true})
			}
		case *ast.GenDecl:
			out = append(out, exportsOfDecl(x)...)
		}
	}
	return out
}

// receiver returns the name of a method's type.
func receiver(f *ast.FuncDecl) string {
	e := f.Recv.List[0].Type
	for {
		switch x := e.(type) {
		case *ast.StarExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.Ident:
			return x.Name
		default:
			return "?"
		}
	}
}

// exportsOfDecl lists the exported values, types and fields of a declaration. The values of an exported
// type that is an enumeration belong together and are left out.
func exportsOfDecl(d *ast.GenDecl) (out []export) {
	enumeration := false
	for _, spec := range d.Specs {
		switch x := spec.(type) {
		case *ast.ValueSpec:
			if id, named := x.Type.(*ast.Ident); named {
				enumeration = id.IsExported()
			} else if x.Type != nil || len(x.Values) > 0 {
				enumeration = false
			}
			for _, id := range x.Names {
				if id.IsExported() && !enumeration {
					out = append(out, export{name: id.Name, short: id.Name, pos: id.Pos()})
				}
			}
		case *ast.TypeSpec:
			if !x.Name.IsExported() {
				continue
			}
			out = append(out, export{name: x.Name.Name, short: x.Name.Name, pos: x.Pos()})
			fields, is := x.Type.(*ast.StructType)
			if !is {
				continue
			}
			for _, f := range fields.Fields.List {
				for _, id := range f.Names {
					if id.IsExported() && f.Tag == nil {
						out = append(out, export{name: x.Name.Name + "." + id.Name, short: id.Name, pos: id.Pos(), member: true})
					}
				}
			}
		}
	}
	return out
}

// uses records which exported names the packages of the module use of each other.
type uses struct {
	qualified  map[string]map[string]bool // folder, name: some file says package.name
	selected   map[string]map[string]bool // name, package: some file of the package selects or sets it
	mentioned  map[string]map[string]bool // folder, type: an exported declaration mentions it
	interfaces map[string]bool            // methods of the module's interfaces
}

func usesOf(all []source) uses {
	u := uses{map[string]map[string]bool{}, map[string]map[string]bool{}, map[string]map[string]bool{}, map[string]bool{}}
	for _, s := range all {
		u.addReferences(s)
		if !s.test {
			u.addMentions(s)
		}
	}
	return u
}

func set(m map[string]map[string]bool, a, b string) {
	if m[a] == nil {
		m[a] = map[string]bool{}
	}
	m[a][b] = true
}

// addReferences notes the names that a file selects and sets, and the methods of its interfaces.
func (u uses) addReferences(s source) {
	who := s.folder
	if s.external() {
		who += " from outside"
	}
	ast.Inspect(s.ast, func(n ast.Node) bool {
		switch x := n.(type) {
		case *ast.SelectorExpr:
			set(u.selected, x.Sel.Name, who)
			if id, is := x.X.(*ast.Ident); is && s.imports[id.Name] != "" {
				set(u.qualified, s.imports[id.Name], x.Sel.Name)
			}
		case *ast.KeyValueExpr:
			if id, is := x.Key.(*ast.Ident); is {
				set(u.selected, id.Name, who)
			}
		case *ast.InterfaceType:
			for _, m := range x.Methods.List {
				for _, id := range m.Names {
					u.interfaces[id.Name] = true
				}
			}
		}
		return true
	})
}

// addMentions notes the types that a file's exported declarations mention.
func (u uses) addMentions(s source) {
	mention := func(n ast.Node) {
		ast.Inspect(n, func(n ast.Node) bool {
			if id, is := n.(*ast.Ident); is {
				set(u.mentioned, s.folder, id.Name)
			}
			return true
		})
	}
	for _, d := range s.ast.Decls {
		switch x := d.(type) {
		case *ast.FuncDecl:
			if x.Name.IsExported() {
				mention(x.Type)
			}
		case *ast.GenDecl:
			for _, spec := range x.Specs {
				mentionsOf(spec, mention)
			}
		}
	}
}

// mentionsOf calls mention for the types in an exported value or type.
func mentionsOf(spec ast.Spec, mention func(ast.Node)) {
	switch x := spec.(type) {
	case *ast.ValueSpec:
		if x.Type != nil && x.Names[0].IsExported() {
			mention(x.Type)
		}
	case *ast.TypeSpec:
		if !x.Name.IsExported() {
			return
		}
		fields, is := x.Type.(*ast.StructType)
		if !is {
			mention(x.Type)
			return
		}
		for _, f := range fields.Fields.List {
			if len(f.Names) == 0 || f.Names[0].IsExported() {
				mention(f.Type)
			}
		}
	}
}

// uses tells whether anything outside the package uses the declaration.
func (u uses) uses(folder string, x export) bool {
	if !x.member {
		return u.qualified[folder][x.short] || u.mentioned[folder][x.short]
	}
	if x.method && (u.interfaces[x.short] || slices.Contains(methodsOfInterfaces, x.short)) {
		return true
	}
	for who := range u.selected[x.short] {
		if who != folder {
			return true
		}
	}
	return false
}
