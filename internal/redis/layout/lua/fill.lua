-- Stores a value under a lease, and announces the end of the lease if another instance waits for
-- it.
-- KEYS: 1 entry. ARGV: 1 schema, 2 token, 3 state, 4 left in ms, 5 value, 6 channel,
-- 7 message that the lease has ended.
-- Returns 1 if stored, 0 if the lease was void.
local schema, left = ARGV[1], tonumber(ARGV[4])
local f = redis.call('HMGET', KEYS[1], 'l' .. schema, 'w' .. schema)
if string.match(f[1] or '', '^(%x+) ') ~= ARGV[2] then
  return 0
end -- else there is no hold: it comes with a drop, and no lease is given during one
if f[2] then
  redis.call('PUBLISH', ARGV[6], ARGV[7])
end
if left <= 0 then
  redis.call('HDEL', KEYS[1], 'l' .. schema, 'w' .. schema, 'v' .. schema, 's' .. schema, 'e' .. schema)
  return 1
end
local rights = f[2] and 2 or 1
local others = redis.call('HLEN', KEYS[1]) - rights
-- Values of other types that are over would live on with the key.
if others > 3 then
  local t = redis.call('TIME')
  local now = t[1] * 1000 + math.floor(t[2] / 1000)
  for _, field in ipairs(redis.call('HKEYS', KEYS[1])) do
    if string.sub(field, 1, 1) == 's' then
      local over = tonumber(string.match(redis.call('HGET', KEYS[1], field), '^%d+ (%d+) ') or 0)
      if over <= now then
        local of = string.sub(field, 2)
        redis.call('HDEL', KEYS[1], field, 'v' .. of, 'e' .. of)
      end
    end
  end
  others = redis.call('HLEN', KEYS[1]) - rights
end
if others > 0 then
  left = math.max(left, redis.call('PTTL', KEYS[1]))
end
-- The first write takes no memory: after it a server without memory left allows the rest. The
-- lease is removed last: in a slot that is being moved, a key that is gone in between would count
-- as moved.
redis.call('PEXPIRE', KEYS[1], left)
redis.call('HSET', KEYS[1], 'v' .. schema, ARGV[5], 's' .. schema, ARGV[3])
if f[2] then
  redis.call('HDEL', KEYS[1], 'l' .. schema, 'e' .. schema, 'w' .. schema)
else
  redis.call('HDEL', KEYS[1], 'l' .. schema, 'e' .. schema)
end
return 1
