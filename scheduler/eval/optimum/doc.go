// Package optimum finds the best placements that there are, for episodes so small that all of
// them can be gone through: who knows every arrival in advance, and may let a pod wait that
// would fit, cannot do better. It is the bound that a policy's result is held against.
package optimum
