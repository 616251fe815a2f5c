// Package online trains a network while a scheduler works with it: the steps of one or more running
// schedulers come in from an experience.Source, and the networks that they learn from go out as
// checkpoints, which the schedulers load.
//
// The Trainer computes rewards, keeps the steps of different actors apart, has every network judged
// by a Guard before a scheduler gets it, and writes the state file from which a trainer after it
// continues. The Learner takes the updates: each method has one (learn/dqn, learn/ppo). What needs
// libtorch carries the build tag torch.
//
// # Steps
//
// Each bound pod becomes a step: the graph, the node, the objective's cost without and with the pod there, the number of pods
// that have had to wait so far, a hash of the weights that scored the nodes, and for an actor-critic the
// log-probability of the node. A pod with one feasible node makes no step. A placement that the network did not decide, or on a
// node that it did not see, leaves a gap in the numbers of the steps. A step is marked as overruled if other scores (--blend)
// outweighed the network's choice. A stretch of placements ends before a gap, before an overruled step and before another
// network's: the value of the next known state stands for the rest. PPO leaves out the steps that the old network makes during an update.
//
// # Networks
//
// A network is judged after 16 updates of deep Q-learning, and after every rollout of PPO. The
// scheduler looks at the file five times a second. A reward that counts pods that wait (--wait-cost)
// counts those of the same scheduler that found no node at their first attempt, however long they wait; pods for which preemption
// found a victim do not count.
//
// # Ends
//
// Scheduling never waits for the trainer: 64 steps may queue, more are dropped and counted. A trainer that dies is started
// again from the last weights, after 1 s, then 2 s, up to a minute. When the scheduler ends or is killed, the trainer writes
// what it has learned. The next one continues from the state file beside the weights (.safetensors.online): optimiser, random
// numbers, the guard's best score, and for deep Q-learning the target network and the latest 256 MB of the replay
// memory. It is written at a good end and every 1024 placements. A killed trainer loses what came after. An
// unfinished rollout of PPO and transitions that wait for their rewards are not in the file. A file that is damaged or
// belongs to another network is ignored.
//
// # Figures
//
// TensorBoard's tags begin with online/: reward, loss and gradient_norm are means since the last report, and cost is the
// objective's cost when the pods came, which learning is to lower. missing_steps were lost, stale_steps are another network's,
// overruled_steps other scores'. eval_total is the guard's score of the last network, eval_limit the score over which it refuses one;
// passed and kept_back count networks.
package online
