-- Stores a value under a lease, or under the token of a drop. The latter is a
-- drop once more, and announced as one: what others have loaded since the token
-- was given is older, in whatever schema. The end of a lease is announced if somebody waits for it.
-- KEYS: 1 entry, 2 lane. ARGV: 1 schema, 2 token, 3 word, 4 fresh in ms, 5 left in ms, 6 value,
-- 7 channel, 8 key, 9 head of the message that a lease has ended, 10 head of
-- that of a drop, 11 nonce.
-- Returns 1 if stored, 0 if the right was gone.
local schema, token, word = ARGV[1], ARGV[2], ARGV[3]
local fresh, left = tonumber(ARGV[4]), tonumber(ARGV[5])
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local f = redis.call('HMGET', KEYS[1], 'l' .. schema, 't', 'h', 'w' .. schema)
local hold = tonumber(f[3] or 0) or 0

local given, till = string.match(f[2] or '', '^(%x+) (%d+)$')
if given == token and tonumber(till) > now then
  local was = redis.call('GET', KEYS[2])
  local count = was and string.match(was, '^(%d+)%.%x+$')
  if not count or #count > 15 then
    was, count = '0.0', 0
  end
  local is = string.format('%d.', count + 1) .. ARGV[11]
  redis.call('SET', KEYS[2], is)
  redis.call('DEL', KEYS[1])
  if hold > now then -- it outlasts drops
    redis.call('HSET', KEYS[1], 'h', string.format('%d', hold))
    redis.call('PEXPIRE', KEYS[1], hold - now)
  end
  redis.call('PUBLISH', ARGV[7],
    ARGV[10] .. was .. ' ' .. is .. string.format(' %d ', math.max(0, hold - now)) .. ARGV[8])
elseif string.match(f[1] or '', '^(%x+) ') ~= token or hold > now then
  return 0
elseif f[4] then
  redis.call('HDEL', KEYS[1], 'l' .. schema, 'w' .. schema)
  redis.call('PUBLISH', ARGV[7], ARGV[9] .. ARGV[8])
else
  redis.call('HDEL', KEYS[1], 'l' .. schema)
end
if left <= 0 then
  redis.call('HDEL', KEYS[1], 'v' .. schema, 's' .. schema)
  return 1
end
-- Values of other types that are over would live on with the key.
if redis.call('HLEN', KEYS[1]) > 3 then
  for _, field in ipairs(redis.call('HKEYS', KEYS[1])) do
    if string.sub(field, 1, 1) == 's' then
      local over = tonumber(string.match(redis.call('HGET', KEYS[1], field), '^%d+ (%d+) ') or 0)
      if over <= now then
        redis.call('HDEL', KEYS[1], field, 'v' .. string.sub(field, 2))
      end
    end
  end
end
local state = string.format('%d %d ', now + fresh, now + left) .. token .. ' ' .. word
redis.call('HSET', KEYS[1], 'v' .. schema, ARGV[6], 's' .. schema, state)
if redis.call('PTTL', KEYS[1]) < left then
  redis.call('PEXPIRE', KEYS[1], left)
end
return 1
