-- Makes a key absent, or stale, for all schemas, voids its leases and token, gives its lane
-- another version, and announces that. A soft drop that finds a good token makes the key absent: the
-- put under it, which is void now, was to do that.
-- KEYS: 1 entry, 2 lane. ARGV: 1 channel, 2 head of the message, 3 nonce, 4 key, and unless all of
-- them have no effect, 5 'soft' or 'hard', 6 token or '', 7 life of the token in ms, 8 hold in ms,
-- 9 for how long values are kept after a soft drop in ms, 0 for as long as they were to be.
-- Returns 1.
local soft, token = ARGV[5] == 'soft', ARGV[6] or ''
local f = redis.call('HMGET', KEYS[1], 'h', 't')
local held = f[1]

local keep, need, rest = {}, 0, '0' -- the fields that the entry has then, and their longest life
local now
if held or ARGV[5] then
  local t = redis.call('TIME')
  now = t[1] * 1000 + math.floor(t[2] / 1000)
  soft = soft and tonumber(string.match(f[2] or '', '^%x+ (%d+)$') or 0) <= now
  local life, hold = tonumber(ARGV[7] or 0), tonumber(ARGV[8] or 0)
  local till, asked = string.match(held or '', '^(%d+) (%d+)$')
  local left = math.min(tonumber(till or 0) - now, tonumber(asked or 0)) -- less if the clock was set back
  hold = math.max(hold, left) -- it is never shortened
  if hold > 0 then
    keep.h = string.format('%d %d', now + hold, hold)
    need = hold
    rest = string.format('%d', hold)
  end
  if token ~= '' then
    keep.t = token .. string.format(' %d', now + life)
    need = math.max(need, life)
  end
end

if soft or need > 0 then
  local fields, stays, cap = redis.call('HKEYS', KEYS[1]), false, tonumber(ARGV[9] or 0)
  -- The first write takes no memory: after it a server without memory left allows
  -- the rest. Fields are written before others are removed: in a slot that is being
  -- moved, a key that is gone in between would count as moved.
  redis.call('HDEL', KEYS[1], '')
  for _, field in ipairs({ 'h', 't' }) do
    if keep[field] then
      redis.call('HSET', KEYS[1], field, keep[field])
    end
  end
  local pttl = redis.call('PTTL', KEYS[1]) -- asked now: below the key may go
  for _, field in ipairs(fields) do
    local kind = string.sub(field, 1, 1)
    if soft and kind == 's' then
      stays = true
      local left, old = string.match(redis.call('HGET', KEYS[1], field), '^%d+ (%d+)( .*)$')
      if old then
        if cap > 0 and now + cap < tonumber(left) then
          left = string.format('%d', now + cap)
        end
        redis.call('HSET', KEYS[1], field, '0 ' .. left .. old)
      end
    elseif not keep[field] and (not soft or kind == 'l' or kind == 'w' or kind == 't') then
      redis.call('HDEL', KEYS[1], field)
    end
  end
  if need > 0 and (not stays or pttl < need) then
    redis.call('PEXPIRE', KEYS[1], need)
  elseif stays and cap > 0 and pttl > math.max(need, cap) then
    redis.call('PEXPIRE', KEYS[1], math.max(need, cap))
  end
else
  redis.call('DEL', KEYS[1])
end

local was = redis.call('GET', KEYS[2])
local count = was and string.match(was, '^(%d+)%.%x+$')
if not count or #count > 13 then
  was, count = '0.0', 0
end
local is = (count + 1) .. '.' .. ARGV[3]
redis.call('SET', KEYS[2], is)
redis.call('PUBLISH', ARGV[1], ARGV[2] .. was .. ' ' .. is .. ' ' .. rest .. ' ' .. ARGV[4])
return 1
