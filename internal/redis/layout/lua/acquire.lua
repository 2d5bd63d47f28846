-- Grants a lease on a key.
-- KEYS: 1 entry. ARGV: 1 schema, 2 token, 3 life of the lease in ms, 4 its end in ms of the server's
-- clock, 5 namespace state, 6 the time in ms of that clock until which the caller waits, and to
-- replace a fresh value, 7 its id: that value counts as stale; '' means none. 8 id of a value that
-- the caller has, if it has one.
-- Returns 1 if a lease was granted and no value is held, else {grant, wait in ms, state or false,
-- value, 1 if the caller has it, or false}. A lease under the same
-- token is granted again, so the request can be repeated. A caller that does not
-- wait any more gets no lease.
local schema, token, life, word = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[5]
-- Returns whether the value with that id has the bytes of the one that the caller has: it is that
-- value, or was extended since.
local function same(id)
  local known = ARGV[8]
  if not known or id == known then
    return known
  end
  local of, before = string.match(redis.call('HGET', KEYS[1], 'e' .. schema) or '', '^(%x+)( .*)$')
  return of == id and string.find(before .. ' ', ' ' .. known .. ' ', 1, true)
end

local ttl = redis.call('PTTL', KEYS[1])
local state, value, awaited = false, false, false
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
if now > tonumber(ARGV[6]) then
  return { 'late', 0, false, false }
end

if ttl ~= -2 then
  local f = redis.call('HMGET', KEYS[1], 's' .. schema, 'l' .. schema, 'h', 'w' .. schema)
  local hold, asked = string.match(f[3] or '', '^(%d+) (%d+)$')
  hold, asked = tonumber(hold or 0) - now, tonumber(asked or 0)
  state = f[1]
  if hold > asked then -- the clock was set back since: the hold begins anew
    hold = asked
    redis.call('HSET', KEYS[1], 'h', string.format('%d %d', now + hold, hold))
  end
  if hold > 0 then
    return { 'hold', hold, state, false }
  end
  if state then
    local fresh, left, id, w = string.match(state, '^(%d+) (%d+) (%x+) (%S+)$')
    if fresh and tonumber(fresh) > now and w == word and id ~= ARGV[7] then
      return { 'free', 0, state, same(id) and 1 or redis.call('HGET', KEYS[1], 'v' .. schema) }
    end
    value = fresh and tonumber(left) > now and string.match(w, '^.*%.') == string.match(word, '^.*%.') and id
  end
  local holder, till, whole = string.match(f[2] or '', '^(%x+) (%d+) (%d+)$')
  awaited = f[4] and holder ~= token -- by callers that waited for another lease
  local left = tonumber(till or 0) - now
  -- A lease of which more is left than was granted, by more than a second, is over:
  -- the clock was set back since.
  if holder and holder ~= token and left > 0 and left <= whole + 1000 then
    if not f[4] then
      redis.call('HSET', KEYS[1], 'w' .. schema, 1)
    end
    return { 'busy', left, state, false }
  end
end
redis.call('HSET', KEYS[1], 'l' .. schema, token .. ' ' .. ARGV[4] .. ' ' .. ARGV[3])
if awaited then
  redis.call('HDEL', KEYS[1], 'w' .. schema)
end
if ttl < life then
  redis.call('PEXPIRE', KEYS[1], life)
end
if not state then
  return 1
end
return { 'granted', life, state, value and (same(value) and 1 or redis.call('HGET', KEYS[1], 'v' .. schema)) }
