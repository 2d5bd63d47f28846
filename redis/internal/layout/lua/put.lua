-- Stores a value under a lease, or under the token of a drop. The latter is
-- announced: what others have loaded since the drop is older.
-- KEYS: 1 entry, 2 lane. ARGV: 1 schema, 2 token, 3 word, 4 fresh in ms, 5 left in ms, 6 value,
-- 7 channel, 8 head of the message, 9 key.
-- Returns 1 if stored, 0 if the right was gone.
local schema, token, word = ARGV[1], ARGV[2], ARGV[3]
local fresh, left = tonumber(ARGV[4]), tonumber(ARGV[5])
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local f = redis.call('HMGET', KEYS[1], 'l' .. schema, 't', 'h')

local dropToken, till = string.match(f[2] or '', '^(%x+) (%d+)$')
if dropToken == token and tonumber(till) > now then
  redis.call('HDEL', KEYS[1], 't')
  local seq = redis.call('HINCRBY', KEYS[2], 'c', 1)
  redis.call('PUBLISH', ARGV[7], ARGV[8] .. string.format('%d', seq) .. ' ' .. ARGV[9])
elseif string.match(f[1] or '', '^(%x+) ') ~= token or tonumber(f[3] or 0) > now then
  return 0
end
redis.call('HDEL', KEYS[1], 'l' .. schema)
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
