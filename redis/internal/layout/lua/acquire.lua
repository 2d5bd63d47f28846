-- Asks for the right to fill a key.
-- KEYS: 1 entry. ARGV: 1 schema, 2 token, 3 life of the lease in ms, 4 word.
-- Returns {grant, wait in ms, now in ms, state or false, value or false}.
local schema, token, life, word = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4]
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local f = redis.call('HMGET', KEYS[1], 's' .. schema, 'l' .. schema, 'h')
local state, lease, hold = f[1], f[2], tonumber(f[3] or 0)

if hold > now then
  return {'hold', hold - now, now, state, false}
end
if state then
  local fresh, w = string.match(state, '^(%d+) %d+ %x+ (%S+)$')
  if fresh and tonumber(fresh) > now and w == word then
    return {'free', 0, now, state, redis.call('HGET', KEYS[1], 'v' .. schema)}
  end
end
if lease then
  local till = tonumber(string.match(lease, '^%x+ (%d+)$') or 0)
  if till > now then
    return {'busy', till - now, now, state, false}
  end
end
redis.call('HSET', KEYS[1], 'l' .. schema, token .. ' ' .. string.format('%d', now + life))
if redis.call('PTTL', KEYS[1]) < life then
  redis.call('PEXPIRE', KEYS[1], life)
end
return {'granted', life, now, state, false}
