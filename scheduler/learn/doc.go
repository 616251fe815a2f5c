// Package learn trains networks to place pods: by reinforcement learning in the simulator, with a
// heuristic as the first teacher.
//
// A Job says which network learns, by which method and on what. It comes from a YAML file
// (ReadJob), from defaults (NewJob) or from the checkpoint of a network that is to learn on with a
// running scheduler (onlineJob). NewTrainer makes a run of it in the simulator, NewOnlineTrainer one
// on a scheduler's steps.
//
// The packages below hold what a job is made of:
//
//   - run: what all methods share, such as the loop of a run, environments, reward and teacher;
//   - dqn, ppo, rollouts: a method each, with its hyperparameters, updates, agent and, for the first two, online learner;
//   - value: networks on GPU clusters, in the same loop with a trainer of their own;
//   - online: learning from running schedulers;
//   - cem: weights of hand-made features, which are no network;
//   - flags: hyperparameters as a command's flags.
//
// A job names its method, which Config.methods looks up. A new one needs a package of its own, its name, a field of Config for its
// hyperparameters with their defaults and a line in Config.methods; a row in internal/architecture's list of imports, and one in
// resume_test.go. It may ignore settings that do not suit it, such as imitation. Its agent acts in the
// simulator (run.Agent), and a learner on a scheduler's steps (online.Learner) makes it learn online; both are built on torch.Trainee.
// What touches libtorch carries the build tag torch; the rest is plain Go.
package learn
