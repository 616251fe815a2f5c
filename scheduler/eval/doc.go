// Package eval compares scheduling policies in the simulator.
//
// A Scenario describes clusters and workloads. Compare runs every Contender on the same episodes
// of a scenario: one seed draws the same cluster and the same arrivals for each of them. The
// resulting Comparison has the mean of each Metric, and its difference from the first contender
// with an interval and a significance test. Reports show the pods without a node beside
// the objective, since a policy can improve the objective by leaving pods out.
//
// A Contender says whether equal scores are broken at random, as kube-scheduler does with the
// integers of its plugins, or the first of the best nodes is taken, as our plugin does for
// networks.
package eval
