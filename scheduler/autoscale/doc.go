// Package autoscale decides which nodes of a simulated cluster come and go, as an autoscaler of real clusters would, and what they cost.
//
// A Catalog says what can be bought: types of machines with their prices, and pools that may start them. A Scaler looks at the cluster each
// time that something changed, and answers with a Plan. It knows no clock but the one in what it sees, so that equal clusters give equal
// plans.
package autoscale
