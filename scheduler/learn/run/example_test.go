package run_test

import (
	"fmt"

	"gnnsched/scheduler/eval"
	"gnnsched/scheduler/learn/run"
	"gnnsched/scheduler/policy/heuristic"
)

// Any policy can be evaluated on the episodes that choose the best network of a run.
func ExampleHeldOut_Evaluate() {
	scenario, err := eval.Find("hetero70")
	if err != nil {
		fmt.Println(err)
		return
	}
	held, err := run.NewHeldOut(scenario.Config, 2)
	if err != nil {
		fmt.Println(err)
		return
	}
	base, err := held.Evaluate(heuristic.Kubernetes{}, true)
	if err != nil {
		fmt.Println(err)
		return
	}
	teacher, err := run.TeacherByName("greedy-balance", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	greedy, err := held.Evaluate(teacher, false)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("the greedy heuristic scores better:", greedy.Total(1) < base.Total(1))
	// Output: the greedy heuristic scores better: true
}
