-- Ends a lease, and announces that if another instance waits for it.
-- KEYS: 1 entry. ARGV: 1 schema, 2 token, 3 channel, 4 message that the lease
-- has ended. Returns 1 if it was valid.
local f = redis.call('HMGET', KEYS[1], 'l' .. ARGV[1], 'w' .. ARGV[1])
if string.match(f[1] or '', '^(%x+) ') ~= ARGV[2] then
  return 0
end
redis.call('HDEL', KEYS[1], 'l' .. ARGV[1], 'w' .. ARGV[1])
if f[2] then
  redis.call('PUBLISH', ARGV[3], ARGV[4])
end
return 1
