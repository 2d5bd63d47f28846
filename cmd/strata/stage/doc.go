// Package stage is the demo on which a person plays: two instances of the service hello, the
// origin, L2 and the bus between them, and a steady load. Actions break and mend the parts, drop
// entries, and restart instances; charts show each effect. A script replays actions.
//
//	actions.go   the actions, in one table for the page and for scripts
//	stage.go     the parts and their life
//	load.go      the load, and the crowd that asks for all greetings loaded at once
//	sample.go    numbers of each second, marks of actions, the watched greeting
//	proxy.go     connections that can be cut
//	origin.go    the origin that can be slow or broken
//	script.go    scripts
//	page.go      the page
package stage
