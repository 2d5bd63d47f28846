-- Gives the held value a new life, and a new id, without sending it again. The end
-- of the lease is announced if another instance waits for it. Of a large value the ids that it had
-- are kept, so that readers which have it need not read it again.
-- KEYS: 1 entry. ARGV: 1 schema, 2 token, 3 namespace state, 4 fresh in ms, 5 left in ms, 6 id,
-- 7 channel, 8 message that the lease has ended.
-- Returns 1 if extended, 0 if the lease was void or another value is held.
local schema, token, word = ARGV[1], ARGV[2], ARGV[3]
local fresh, left, id = tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[6]
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local f = redis.call('HMGET', KEYS[1], 'l' .. schema, 's' .. schema, 'h', 'w' .. schema)

if string.match(f[1] or '', '^(%x+) ') ~= token or (tonumber(string.match(f[3] or '', '^(%d+) ') or 0)) > now then
  return 0
end
local till, held, w = string.match(f[2] or '', '^%d+ (%d+) (%x+) (%S+)$')
if held ~= id or tonumber(till) <= now or string.match(w, '^.*%.') ~= string.match(word, '^.*%.') then
  return 0
end
redis.call('HDEL', KEYS[1], 'l' .. schema, 'w' .. schema)
local state = string.format('%d %d ', now + fresh, now + left) .. token .. ' ' .. word
redis.call('HSET', KEYS[1], 's' .. schema, state)
local size = redis.pcall('HSTRLEN', KEYS[1], 'v' .. schema) -- an error if it is not permitted
if type(size) == 'number' and size >= 4096 then
  local of, before = string.match(redis.call('HGET', KEYS[1], 'e' .. schema) or '', '^(%x+) (.*)$')
  local ids = token .. ' ' .. id
  if of == id then
    ids = ids .. ' ' .. (string.match(before, '^%x+ %x+') or before)
  end
  redis.call('HSET', KEYS[1], 'e' .. schema, ids)
end
if redis.call('PTTL', KEYS[1]) < left then
  redis.call('PEXPIRE', KEYS[1], left)
end
if f[4] then
  redis.call('PUBLISH', ARGV[7], ARGV[8])
end
return 1
