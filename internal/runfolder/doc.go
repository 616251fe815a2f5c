// Package runfolder reads and writes the data of a run for reports: a folder with a manifest and one file for each kind of row. A folder
// holds one run.
//
//	w, err := runfolder.Create(dir, runfolder.Manifest{Kind: "compare", Command: os.Args, …})
//	err = w.Add(runfolder.Scenario{Name: "monday", Baseline: "default"})
//	err = w.Add(runfolder.Episode{Scenario: "monday", Contender: "gnn", Values: map[string]float64{"cost": 0.1}})
//	err = w.Close(errOfTheRun)
//
// A row is a line of JSON in the file of its type, so a run that is killed loses at most its last line. A file
// takes maxFile bytes; the rows beyond that are counted in the manifest and not written. A curve of
// learning is the file scalars.csv of package tensorboard, which Read reads as well.
//
// Manifests hold the command line without its secrets: see redact.
//
// The files, for other tools; the types of the rows describe their fields:
//
//   - manifest.json: one [Manifest]. Without "ended", the run goes on or was killed.
//   - scenarios.jsonl: what contenders were compared on, and by which metrics ([Scenario])
//   - verdicts.jsonl: what was found, the most important first ([Verdict])
//   - episodes.jsonl: the metrics of a contender in an episode ([Episode])
//   - differences.jsonl: a contender's metric minus the baseline's, with its 95 % interval ([Difference])
//   - frames.jsonl: the cluster at one time, without control planes ([Frame])
//   - waits.jsonl: how long the pods of a class waited ([Waits])
//   - decisions.jsonl: a sample of choices ([Decision])
//   - tables.jsonl: other tables ([Table])
//   - scalars.csv: points of learning curves
package runfolder
