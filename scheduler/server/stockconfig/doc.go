// Package stockconfig reads and writes the score plugins' part of a KubeSchedulerConfiguration
// (kubescheduler.config.k8s.io/v1) as a stock.Profile.
//
// It knows upstream's configuration types, loader and validation, but not upstream's scheduler.
package stockconfig
