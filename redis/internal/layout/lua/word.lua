-- Reads the word that every value of a name space carries. A missing word is
-- made with a nonce: values from before it went missing are not ours any more.
-- KEYS: 1 word. ARGV: 1 nonce, then, if a word is known, 2 its epoch, 3 its
-- count: a server that knows less was set back, and nothing in it is ours any
-- more. Returns {epoch, count, now in ms}.
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local seen = tonumber(ARGV[3] or 0)
if seen > 0 and redis.call('HGET', KEYS[1], 'epoch') == ARGV[2] and
    tonumber(redis.call('HGET', KEYS[1], 'count') or 0) < seen then
  redis.call('DEL', KEYS[1])
end
redis.call('HSETNX', KEYS[1], 'epoch', ARGV[1])
local f = redis.call('HMGET', KEYS[1], 'epoch', 'count')
return {f[1], tonumber(f[2] or 0), now}
