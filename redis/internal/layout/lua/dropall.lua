-- Disowns all values of a name space by changing its word, and announces that.
-- KEYS: 1 word. ARGV: 1 nonce, 2 channel, 3 message.
-- Returns {epoch, count, now in ms}.
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
redis.call('HSETNX', KEYS[1], 'epoch', ARGV[1])
local count = redis.call('HINCRBY', KEYS[1], 'count', 1)
redis.call('PUBLISH', ARGV[2], ARGV[3])
return {redis.call('HGET', KEYS[1], 'epoch'), count, now}
