-- Stores a value under the token of a drop, or under a lease, and drops the key: values that
-- other instances have loaded since the token or lease was given are older, in all schemas. The
-- drop is announced.
-- KEYS: 1 entry, 2 lane. ARGV: 1 schema, 2 token, 3 state, 4 left in ms, 5 value, 6 channel,
-- 7 head of the message, 8 nonce, 9 key, 10 field of the lease or token.
-- Returns 1 if stored, 0 if the lease or token was void.
local schema, left = ARGV[1], tonumber(ARGV[4])
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local f = redis.call('HMGET', KEYS[1], ARGV[10], 'h', 't')
local token, till = string.match(f[1] or '', '^(%x+) (%d+)')
if token ~= ARGV[2] or ARGV[10] == 't' and tonumber(till) <= now then
  return 0
end -- a lease that has run out is good until another takes its place

local was = redis.call('GET', KEYS[2])
local count = was and string.match(was, '^(%d+)%.%x+$')
if not count or #count > 13 then
  was, count = '0.0', 0
end
local is = (count + 1) .. '.' .. ARGV[8]
local hold, asked = string.match(f[2] or '', '^(%d+) (%d+)$')
local rest = math.max(0, math.min(tonumber(hold or 0) - now, tonumber(asked or 0)))
redis.call('SET', KEYS[2], is)
redis.call('PUBLISH', ARGV[6], ARGV[7] .. was .. ' ' .. is .. string.format(' %d ', rest) .. ARGV[9])

local keep = { h = rest > 0 } -- a hold outlasts drops
if ARGV[10] ~= 't' and f[3] then -- a value under the token of a drop is newer than this
  local wait = (tonumber(string.match(f[3], ' (%d+)$') or 0) or 0) - now
  keep.t = wait > 0
  rest = math.max(rest, wait)
end
local fields = redis.call('HKEYS', KEYS[1])
-- In a slot that is being moved, a key that is gone in between would count as moved. So fields
-- are written before others are removed.
if left > 0 then
  redis.call('HSET', KEYS[1], 'v' .. schema, ARGV[5], 's' .. schema, ARGV[3])
  keep['v' .. schema], keep['s' .. schema] = true, true
end
if math.max(rest, left) > 0 then
  redis.call('PEXPIRE', KEYS[1], math.max(rest, left))
end
for _, field in ipairs(fields) do
  if not keep[field] then
    redis.call('HDEL', KEYS[1], field)
  end
end
return 1
