// Package es improves a network by evolution strategies (Wierstra et al. 2014; Salimans et al. 2017): it tries networks with noise on
// some weights on whole episodes, and moves the weights towards the noise that paid. Unlike a gradient of single decisions, what
// it follows is the cost that counts, over time and at the end of an episode, and no horizon cuts it.
package es
