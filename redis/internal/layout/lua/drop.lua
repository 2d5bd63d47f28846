-- Makes a key absent, or stale, for all schemas, voids every right to fill it,
-- gives its lane another word, and announces that.
-- KEYS: 1 entry, 2 lane. ARGV: 1 'soft' or 'hard', 2 token or '', 3 life of the
-- token in ms, 4 hold in ms, 5 channel, 6 head of the message, 7 nonce, 8 key.
-- Returns 1.
local soft, token = ARGV[1] == 'soft', ARGV[2]
local life, hold = tonumber(ARGV[3]), tonumber(ARGV[4])
local held = redis.call('HGET', KEYS[1], 'h')

-- What takes no memory comes first: a server that has none left then allows
-- the rest.
if soft then
  redis.call('HDEL', KEYS[1], 't')
  for _, field in ipairs(redis.call('HKEYS', KEYS[1])) do
    local kind = string.sub(field, 1, 1)
    if kind == 's' then
      local rest = string.match(redis.call('HGET', KEYS[1], field), '^%d+( .*)$')
      if rest then
        redis.call('HSET', KEYS[1], field, '0' .. rest)
      end
    elseif kind == 'l' or kind == 'w' then
      redis.call('HDEL', KEYS[1], field)
    end
  end
else
  redis.call('DEL', KEYS[1])
end

local rest = 0
if held or hold > 0 or token ~= '' then
  local t = redis.call('TIME')
  local now = t[1] * 1000 + math.floor(t[2] / 1000)
  local need = 0
  local till = math.max(tonumber(held or 0) or 0, now + hold) -- a hold is never shortened
  if till > now then
    redis.call('HSET', KEYS[1], 'h', string.format('%d', till))
    rest = till - now
    need = rest
  end
  if token ~= '' then
    redis.call('HSET', KEYS[1], 't', token .. string.format(' %d', now + life))
    need = math.max(need, life)
  end
  if need > 0 and redis.call('PTTL', KEYS[1]) < need then
    redis.call('PEXPIRE', KEYS[1], need)
  end
end

local was = redis.call('GET', KEYS[2])
local count = was and string.match(was, '^(%d+)%.%x+$')
if not count or #count > 15 then
  was, count = '0.0', 0
end
local is = string.format('%d.', count + 1) .. ARGV[7]
redis.call('SET', KEYS[2], is)
redis.call('PUBLISH', ARGV[5], ARGV[6] .. was .. ' ' .. is .. string.format(' %d ', rest) .. ARGV[8])
return 1
