-- Prolongs a lease.
-- KEYS: 1 entry. ARGV: 1 schema, 2 token, 3 life in ms. Returns 1 if it was
-- valid.
local life = tonumber(ARGV[3])
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local lease = redis.call('HGET', KEYS[1], 'l' .. ARGV[1])
if not lease or string.match(lease, '^(%x+) ') ~= ARGV[2] then
  return 0
end
redis.call('HSET', KEYS[1], 'l' .. ARGV[1], ARGV[2] .. string.format(' %d %d', now + life, life))
if redis.call('PTTL', KEYS[1]) < life then
  redis.call('PEXPIRE', KEYS[1], life)
end
return 1
