// Package learn has the flags with which a scheduler learns while it runs, and a trainer beside it.
//
// The packages below hold the methods:
//
//   - value: networks that learn what waits, or what stays idle, from whole episodes or from a scheduler's steps;
//   - cem: weights of hand-made features, which are no network.
package learn
