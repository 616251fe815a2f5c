package main

import (
	"fmt"
	"strings"
)

// The producers claims and expect write tables whose figures stand in other data files:
//
//	<!-- generated: claims claims.csv -->   a figure a line, with the command, the commit, the date and the seeds that sources.csv has for it
//	<!-- generated: expect readme.csv -->   what to expect: the default scheduler, the best rule and the network beside each other, the best in bold
//
// A line of claims.csv names a row of a data file by its fields; show=percent takes its percentage. A line of readme.csv has a policy for each column, and the section, if that
// differs, and the policy that the network's difference is from.
func init() {
	producers["claims"] = claims
	producers["expect"] = expect
}

// one returns the only row of a data file with these fields.
func one(root, file string, fields row) (row, error) {
	rows, err := readData(dataFile(root, file))
	if err != nil {
		return nil, err
	}
	var found row
	for _, r := range rows {
		fits := true
		for key, v := range fields {
			fits = fits && r[key] == v
		}
		if fits && found != nil {
			return nil, fmt.Errorf("%s has two rows with %v", file, fields)
		} else if fits {
			found = r
		}
	}
	if found == nil {
		return nil, fmt.Errorf("%s has no row with %v", file, fields)
	}
	return found, nil
}

// figureFields are those that name a figure.
var figureFields = []string{"section", "scenario", "policy", "than", "metric", "at"}

func claims(root, of string) (string, error) {
	list, err := readData(dataFile(root, of))
	if err != nil {
		return "", err
	}
	var out strings.Builder
	out.WriteString("| claim | figure | seeds | commit | command |\n|---|--:|---|---|---|\n")
	for _, c := range list {
		fields := row{}
		for _, key := range figureFields {
			fields[key] = c[key]
		}
		figure, err := one(root, c["file"], fields)
		if err != nil {
			return "", err
		}
		source, err := one(root, "sources.csv", row{"file": c["file"], "section": c["section"]})
		if err != nil {
			return "", err
		}
		all, err := readData(dataFile(root, c["file"]))
		if err != nil {
			return "", err
		}
		r := request{settings: map[string]string{"show": c["show"]}}
		if c["show"] == "" {
			delete(r.settings, "show")
		}
		command, further, more := strings.Cut(source["command"], "; ")
		if command = "`" + command + "`"; more {
			command += "; " + further
		}
		fmt.Fprintf(&out, "| %s | %s%s | %s | %s, %s | %s |\n", c["claim"], r.cell(figure, all), c["unit"], source["seeds"], source["commit"], source["date"], command)
	}
	return out.String(), nil
}

func expect(root, of string) (string, error) {
	list, err := readData(dataFile(root, of))
	if err != nil {
		return "", err
	}
	var out strings.Builder
	out.WriteString("| workload | figure | default scheduler | best rule | network | network against the better of the two |\n|---|---|--:|--:|--:|--:|\n")
	for _, c := range list {
		line, err := expected(root, c)
		if err != nil {
			return "", err
		}
		out.WriteString(line)
	}
	return out.String(), nil
}

// expected returns a line of what to expect.
func expected(root string, c row) (string, error) {
	plain := request{settings: map[string]string{}}
	cells, values, best := []string{}, []float64{}, 0
	for i, key := range []string{"default", "rule", "network"} {
		section, seeds := c["section"], ""
		if other := c["default section"]; i == 0 && other != "" {
			source, err := one(root, "sources.csv", row{"file": c["file"], "section": other})
			if err != nil {
				return "", err
			}
			number, _, _ := strings.Cut(source["seeds"], " ")
			section, seeds = other, " ("+number+" seeds)"
		}
		figure, err := one(root, c["file"], row{"section": section, "scenario": c["scenario"], "policy": c[key], "than": "", "metric": c["metric"], "at": c["at"]})
		if err != nil {
			return "", err
		}
		v := parse(figure["value"])
		values = append(values, v)
		if c["better"] == "less" && v < values[best] || c["better"] == "more" && v > values[best] {
			best = i
		}
		cells = append(cells, plain.cell(figure, nil)+seeds)
	}
	for i, key := range []string{"", "rule", "network"} {
		if values[i] == values[best] {
			cells[i] = "**" + cells[i] + "**"
		}
		if key != "" {
			policy, _, _ := strings.Cut(c[key], ":traffic")
			cells[i] += " `" + policy + "`"
		}
	}
	difference, err := against(root, c)
	return fmt.Sprintf("| %s | %s, %s is better | %s | %s |\n", c["workload"], c["figure"], c["better"], strings.Join(cells, " | "), difference), err
}

// against returns the network's difference, which the data may have the other way round.
func against(root string, c row) (string, error) {
	if c["than"] == "" {
		return "–", nil
	}
	section, metric := c["section"], c["metric"]
	if c["difference"] != "" {
		section = c["difference"]
	}
	if c["difference metric"] != "" {
		metric = c["difference metric"]
	}
	d, err := one(root, c["file"], row{"section": section, "scenario": c["scenario"], "policy": c["network"], "than": c["than"], "metric": metric, "at": c["at"]})
	if err != nil {
		d, err = one(root, c["file"], row{"section": section, "scenario": c["scenario"], "policy": c["than"], "than": c["network"], "metric": metric, "at": c["at"]})
		if err != nil {
			return "", err
		}
		d["value"], d["low"], d["high"] = negative(d["value"]), negative(d["high"]), negative(d["low"])
	}
	cell := request{settings: map[string]string{}}.cell(d, nil)
	if strings.HasSuffix(metric, "%") && metric != c["metric"] {
		value, interval, _ := strings.Cut(cell, " (")
		cell = value + " % (" + interval
	}
	return cell, nil
}

// negative returns a number with the other sign.
func negative(s string) string {
	if rest, is := strings.CutPrefix(s, "-"); is {
		return rest
	}
	return "-" + s
}
