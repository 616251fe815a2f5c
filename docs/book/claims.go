package main

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
)

// The producers claims and expect write tables of figures of several data files:
//
//	<!-- generated: claims claims.csv -->   a figure a line, with its command, commit, date and seeds from sources.csv
//	<!-- generated: expect readme.csv -->   the default scheduler, the best rule and the network beside each other
//
// A line of claims.csv names a row of a data file by its fields; its show=percent takes the row's percentage. A line of
// readme.csv names a policy for each of the three, and the policy that the network's difference is from. It may name
// another section for the default scheduler or for the difference.

// errNoRow is the error of a figure that a data file does not have.
var errNoRow = errors.New("no row")

// one returns the row of a data file with these fields. Several such rows are an error, and so is none.
func one(root, file string, fields row) (row, error) {
	rows, err := readData(dataFile(root, file))
	if err != nil {
		return nil, err
	}
	var found row
	for _, r := range rows {
		if r.has(fields) && found != nil {
			return nil, fmt.Errorf("%s has two rows with %v", file, fields)
		} else if r.has(fields) {
			found = r
		}
	}
	if found == nil {
		return nil, fmt.Errorf("%s has %w with %v", file, errNoRow, fields)
	}
	return found, nil
}

// figureFields are the fields that identify a figure.
var figureFields = []string{"section", "scenario", "policy", "than", "metric", "at"}

func claims(root, of string) (string, error) {
	list, err := readData(dataFile(root, of))
	if err != nil {
		return "", err
	}
	head := []string{"claim", "figure", "seeds", "commit", "command"}
	return tryListed(head, list, func(c row) ([]string, error) {
		fields := row{}
		for _, key := range figureFields {
			fields[key] = c[key]
		}
		figure, err := one(root, c["file"], fields)
		if err != nil {
			return nil, err
		}
		source, err := one(root, "sources.csv", row{"file": c["file"], "section": c["section"]})
		if err != nil {
			return nil, err
		}
		all, err := readData(dataFile(root, c["file"]))
		var r request
		if c["show"] != "" {
			r.settings = map[string]string{"show": c["show"]}
		}
		command, remark, found := strings.Cut(source["command"], "; ")
		if command = span(command); found {
			command += "; " + remark
		}
		return []string{c["claim"], r.cell(figure, all) + c["unit"], source["seeds"], source["commit"] + ", " + source["date"], command}, err
	}, 1)
}

func expect(root, of string) (string, error) {
	list, err := readData(dataFile(root, of))
	if err != nil {
		return "", err
	}
	head := []string{
		"workload", "figure", "default scheduler", "best rule", "network", "network against the better of the two",
	}
	return tryListed(head, list, func(c row) ([]string, error) { return expected(root, c) }, 2, 3, 4, 5)
}

// expected returns the cells of a line of readme.csv in the table. The best of its three figures is bold.
func expected(root string, c row) ([]string, error) {
	cells, values, best := []string{}, []float64{}, 0
	for i, who := range []string{"default", "rule", "network"} {
		section, seeds := c["section"], ""
		if other := c["default section"]; i == 0 && other != "" {
			source, err := one(root, "sources.csv", row{"file": c["file"], "section": other})
			if err != nil {
				return nil, err
			}
			number, _, _ := strings.Cut(source["seeds"], " ")
			section, seeds = other, " ("+number+" seeds)"
		}
		figure, err := one(root, c["file"], figureKey(c, section, c[who], "", c["metric"]))
		if err != nil {
			return nil, err
		}
		v := parse(figure["value"])
		values = append(values, v)
		if c["better"] == "less" && v < values[best] || c["better"] == "more" && v > values[best] {
			best = i
		}
		cells = append(cells, request{}.cell(figure, nil)+seeds)
	}
	for i, who := range []string{"", "rule", "network"} { // the default scheduler needs no name
		if values[i] == values[best] {
			cells[i] = "**" + cells[i] + "**"
		}
		if who != "" {
			policy, _, _ := strings.Cut(c[who], ":traffic")
			cells[i] += " " + span(policy)
		}
	}
	difference, err := against(root, c)
	return append([]string{c["workload"], c["figure"] + ", " + c["better"] + " is better"}, append(cells, difference)...), err
}

// figureKey returns the fields that identify a figure, at the scenario and the load of a line of readme.csv.
func figureKey(c row, section, policy, than, metric string) row {
	return row{"section": section, "scenario": c["scenario"], "policy": policy, "than": than, "metric": metric, "at": c["at"]}
}

// against returns the network's difference from the policy than. If the data file has only the difference of that
// policy from the network, against negates it.
func against(root string, c row) (string, error) {
	if c["than"] == "" {
		return "–", nil
	}
	section, metric := cmp.Or(c["difference"], c["section"]), cmp.Or(c["difference metric"], c["metric"])
	d, err := one(root, c["file"], figureKey(c, section, c["network"], c["than"], metric))
	if errors.Is(err, errNoRow) {
		d, err = one(root, c["file"], figureKey(c, section, c["than"], c["network"], metric))
		if err != nil {
			return "", err
		}
		d["value"], d["low"], d["high"] = negative(d["value"]), negative(d["high"]), negative(d["low"])
	} else if err != nil {
		return "", err
	}
	cell := request{}.cell(d, nil)
	if strings.HasSuffix(metric, "%") && metric != c["metric"] {
		value, interval, _ := strings.Cut(cell, " (")
		cell = value + " % (" + interval
	}
	return cell, nil
}

// negative returns a number with the other sign.
func negative(s string) string {
	if s == "" {
		return ""
	}
	if rest, is := strings.CutPrefix(s, "-"); is {
		return rest
	}
	return "-" + s
}
