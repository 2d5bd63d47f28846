// Package loadview shows a running load on a terminal, with keys that change its rate and
// its concurrency.
//
// [Run] starts a load, shows it until it ends or a key ends it, and returns its result.
// Every text on the screen is made here or escaped: a target cannot send a character that
// is a command to the terminal. The lines are cut to the width of the terminal, and the parts that
// do not fit its height are left out, the least important first.
package loadview
