package remote

import "context"

// Trace is told of each command of a client right before the command is sent to a server. It
// returns a function, or nil. The function is called once, when the command has ended. ctx is the
// context of the call. Both functions must be safe for concurrent use. The call waits for each of them for 50 ms at most; then
// the function runs on, and a panic in it changes nothing. The Options of the clients redis and memcached have a
// Trace.
type Trace func(ctx context.Context, c Command) (end func(CommandEnd))

// Command describes a command on its way to a server. It has no key and no value.
type Command struct {
	// System is the kind of server, "redis" or "memcached".
	System string
	// Name is the name of the command on the wire, such as HMGET or mg. Several commands
	// sent together have the name PIPELINE, followed by the name of the commands if all
	// have the same, as in "PIPELINE mg". A transaction has the name MULTI.
	Name string
	// Script is the name of the script that the command runs: one of package strata, as
	// strata.acquire, or the digest of another one. Else it is empty.
	Script string
	// Batch is the number of commands sent together, and zero for a single one.
	Batch int
	// Network and Addr are the network and the address by which the client reaches the server.
	Network, Addr string
	// DB is the number of the database, if the server has some.
	DB int
	// Cache is the name of the cache for which a Tier or a Bus sends the command, and Service
	// its service. Both are empty for upkeep, and for a command of the program itself.
	Service, Cache string
	// Upkeep says that a client, a Tier or a Bus sends the command for itself.
	Upkeep bool
}

// CommandEnd describes the end of a command.
type CommandEnd struct {
	// Status is the first word of an error that the server has replied, such as
	// WRONGTYPE or SERVER_ERROR. It is empty after other replies. Replies to the
	// commands of a batch are not looked at.
	Status string
	// Err is the error of the call. It is nil if there is no value for a key.
	Err error
}
