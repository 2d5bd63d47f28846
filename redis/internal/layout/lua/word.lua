-- Reads the word that every value of a name space carries. A missing word is
-- made with a nonce: values from before it went missing are not ours any more.
-- KEYS: 1 word. ARGV: 1 nonce. Returns {epoch, count, now in ms}.
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
redis.call('HSETNX', KEYS[1], 'epoch', ARGV[1])
local f = redis.call('HMGET', KEYS[1], 'epoch', 'count')
return {f[1], tonumber(f[2] or 0), now}
