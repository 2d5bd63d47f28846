// Package redis is the machinery of the Redis client, and the Tier and Bus over Redis for
// any client. The first rooms know no tier; the client of package redis is made of them.
// The others know no socket: package redis and contrib/goredis give them commands to run.
//
// Rooms:
//
//   - resp: the Redis protocol in both directions; opens no sockets
//   - slots: hash slots, topologies and redirections of Redis Cluster; the nodes of a
//     cluster, and the refresh of its topology
//   - layout: names, fields, messages and Lua scripts: the form of everything in Redis; the
//     scripts as WATCH/MULTI/EXEC, for servers without scripts; the namespace states that a
//     process uses, and the clocks of the servers
//   - tier: the Tier over Redis, for either client
//   - bus: the Bus over Redis, for either client, and a subscription that outlives its
//     connections
package redis
