-- Gives a lease back.
-- KEYS: 1 entry. ARGV: 1 schema, 2 token. Returns 1 if it was still there.
local lease = redis.call('HGET', KEYS[1], 'l' .. ARGV[1])
if lease and string.match(lease, '^(%x+) ') == ARGV[2] then
  return redis.call('HDEL', KEYS[1], 'l' .. ARGV[1])
end
return 0
