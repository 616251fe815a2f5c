package contender

import (
	"regexp"
	"strings"

	"gnnsched/scheduler/eval"
)

// withFile matches the names of policies that end in the path of a file.
var withFile = regexp.MustCompile(`^((?:[a-z-]+(?:=[^:]*)?:)*?)(linear:|stock:|mig:)(.+)$`)

// from returns a contender with the origin of a name of --policies.
func from(x eval.Contender, name string) eval.Contender {
	o := eval.Origin{Policy: name}
	if m := withFile.FindStringSubmatch(name); m != nil && (m[2] != "mig:" || strings.HasSuffix(name, ".json")) {
		o.Policy, o.File = m[1]+m[2], m[3]
	}
	return known(x, o)
}

// fromFile returns a contender with the origin of an argument of --checkpoint.
func fromFile(x eval.Contender, argument string) eval.Contender {
	o := eval.Origin{Argument: true}
	if of, ok := strings.CutPrefix(argument, running+":"); ok {
		o.Policy, argument = running+":", of
	}
	name, path := splitArgument(argument)
	o.Policy, o.File = o.Policy+name+"=", path
	return known(x, o)
}

func known(x eval.Contender, o eval.Origin) eval.Contender {
	x.Origin = &o
	return x
}

// Of returns the contender of an origin. The contenders of one origin, in any process, make the same choices.
func Of(o eval.Origin) (eval.Contender, error) {
	if o.Policy == eval.Optimum {
		return eval.Best(), nil
	}
	read := Named
	if o.Argument {
		read = load
	}
	return read(o.Policy + o.File)
}
