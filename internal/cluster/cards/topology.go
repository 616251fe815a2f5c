package cards

import (
	"strconv"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
)

// Values returns an attribute of each card, as text: the value that the card's devices have, empty if none has one or if they differ. A
// name without a domain means the attribute in each driver's own domain. Of a list only the first value counts:
// resource.kubernetes.io/numaNode begins with the device's own node. Negative numbers count as no value: a NUMA node of -1 stands for none.
func (s *Set) Values(name string) []string {
	return s.common(func(d *Device) string { return d.text(name) })
}

// Models returns the model of each card; empty if the driver does not publish it.
func (s *Set) Models() []string { return s.common((*Device).model) }

// common returns for each card the values that all its devices share; empty is as good as any value.
func (s *Set) common(of func(*Device) string) []string {
	out, differ := make([]string, len(s.Cards)), make([]bool, len(s.Cards))
	for i := range s.Devices {
		card := s.Devices[i].Card
		if value := of(&s.Devices[i]); value != "" {
			differ[card] = differ[card] || out[card] != "" && out[card] != value
			out[card] = value
		}
	}
	for i := range out {
		if differ[i] {
			out[i] = ""
		}
	}
	return out
}

// attribute returns a device's attribute. A driver may leave out its own domain in the names of its attributes.
func (d *Device) attribute(name string) (resourceapi.DeviceAttribute, bool) {
	domain, short, qualified := strings.Cut(name, "/")
	if !qualified {
		domain, short = d.Driver, name
	}
	if a, has := d.Attributes[resourceapi.QualifiedName(domain+"/"+short)]; has {
		return a, true
	}
	if domain != d.Driver {
		return resourceapi.DeviceAttribute{}, false
	}
	a, has := d.Attributes[resourceapi.QualifiedName(short)]
	return a, has
}

// text returns an attribute's value, or the first of its list, with its type; empty for none.
func (d *Device) text(name string) string {
	a, _ := d.attribute(name)
	switch {
	case a.StringValue != nil:
		return "string " + *a.StringValue
	case len(a.StringValues) > 0:
		return "string " + a.StringValues[0]
	case a.VersionValue != nil:
		return "version " + *a.VersionValue
	case len(a.VersionValues) > 0:
		return "version " + a.VersionValues[0]
	case a.BoolValue != nil:
		return strconv.FormatBool(*a.BoolValue)
	case len(a.BoolValues) > 0:
		return strconv.FormatBool(a.BoolValues[0])
	case a.IntValue != nil && *a.IntValue >= 0:
		return strconv.FormatInt(*a.IntValue, 10)
	case len(a.IntValues) > 0 && a.IntValues[0] >= 0:
		return strconv.FormatInt(a.IntValues[0], 10)
	}
	return ""
}
