-- Stores the value of a Set under its token, and drops the key: nothing was dropped, and nothing was
-- announced, when token.lua gave the token. So the drop is announced even if the token is void.
-- KEYS: 1 entry, 2 lane. ARGV: 1 schema, 2 token, 3 state, 4 left in ms, 5 value, 6 channel,
-- 7 head of the message, 8 nonce, 9 key.
-- Returns 1 if stored, 0 if the token was void.
local left = tonumber(ARGV[4])
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local f = redis.call('HMGET', KEYS[1], 't', 'h')
local token, till = string.match(f[1] or '', '^0?(%x+) (%d+)$')
till = tonumber(till or 0)
local good = token == ARGV[2] and till > now
local rest = 0
if f[2] then
  local hold, asked = string.match(f[2], '^(%d+) (%d+)$')
  rest = math.max(0, math.min(tonumber(hold or 0) - now, tonumber(asked or 0)))
end

local was = redis.call('GET', KEYS[2])
local count = was and string.match(was, '^(%d+)%.%x+$')
if not count or #count > 13 then
  was, count = '0.0', 0
end
local is = (count + 1) .. '.' .. ARGV[8]
-- The first write takes no memory: after it a server without memory left allows the rest.
if left <= 0 then
  redis.call('HDEL', KEYS[1], '')
end
redis.call('SET', KEYS[2], is)
redis.call('PUBLISH', ARGV[6], ARGV[7] .. was .. ' ' .. is .. string.format(' %d ', rest) .. ARGV[9])

-- Without a token a newer write, or drop, is complete, and its value stays. A stale value is older:
-- a soft drop by an earlier version has taken the token, and kept it.
if not token then
  for _, field in ipairs(redis.call('HKEYS', KEYS[1])) do
    if string.sub(field, 1, 1) == 's' and string.match(redis.call('HGET', KEYS[1], field), '^0 %d+ %x+ ') then
      local of = string.sub(field, 2)
      redis.call('HDEL', KEYS[1], field, 'v' .. of, 'e' .. of)
    end
  end
  return 0
end

local keep = { h = rest > 0 } -- a hold outlasts drops
if not good then
  left = 0
  keep.t = till > now
  rest = math.max(rest, till - now)
end
-- In a slot that is being moved, a key that is gone in between would count as moved. So fields are
-- written before others are removed.
if left > 0 then
  redis.call('HSET', KEYS[1], 'v' .. ARGV[1], ARGV[5], 's' .. ARGV[1], ARGV[3])
  redis.call('HDEL', KEYS[1], 't')
  keep['v' .. ARGV[1]], keep['s' .. ARGV[1]] = true, true
end
if math.max(rest, left) > 0 then
  redis.call('PEXPIRE', KEYS[1], math.max(rest, left))
end
if left > 0 and redis.call('HLEN', KEYS[1]) == 2 then
  return 1 -- there is nothing else
end
for _, field in ipairs(redis.call('HKEYS', KEYS[1])) do
  if not keep[field] then
    redis.call('HDEL', KEYS[1], field)
  end
end
return good and 1 or 0
