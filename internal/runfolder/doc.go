// Package runfolder is the form in which a run leaves what a report needs: a folder with a manifest and one
// file for each kind of row. docs/report.md describes it for those who read it with other tools.
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
package runfolder
