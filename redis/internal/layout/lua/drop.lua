-- Makes a key absent, or stale, for all schemas, voids every right to fill it,
-- and announces that.
-- KEYS: 1 entry, 2 lane. ARGV: 1 'soft' or 'hard', 2 token or '', 3 life of the
-- token in ms, 4 hold in ms, 5 channel, 6 head of the message, 7 key.
-- Returns the lane's new sequence number.
local soft, token = ARGV[1] == 'soft', ARGV[2]
local life, hold = tonumber(ARGV[3]), tonumber(ARGV[4])
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)

-- A hold is never shortened.
local held = tonumber(redis.call('HGET', KEYS[1], 'h') or 0)
local till = math.max(held, now + hold)
local need = 0

if soft then
  for _, field in ipairs(redis.call('HKEYS', KEYS[1])) do
    local kind = string.sub(field, 1, 1)
    if kind == 's' then
      local rest = string.match(redis.call('HGET', KEYS[1], field), '^%d+( .*)$')
      if rest then
        redis.call('HSET', KEYS[1], field, '0' .. rest)
      end
    elseif kind == 'l' or kind == 't' then
      redis.call('HDEL', KEYS[1], field)
    end
  end
else
  redis.call('DEL', KEYS[1])
end
if till > now then
  redis.call('HSET', KEYS[1], 'h', string.format('%d', till))
  need = till - now
end
if token ~= '' then
  redis.call('HSET', KEYS[1], 't', token .. ' ' .. string.format('%d', now + life))
  need = math.max(need, life)
end
if need > 0 and redis.call('PTTL', KEYS[1]) < need then
  redis.call('PEXPIRE', KEYS[1], need)
end

local seq = redis.call('HINCRBY', KEYS[2], 'c', 1)
redis.call('PUBLISH', ARGV[5], ARGV[6] .. string.format('%d', seq) .. ' ' .. ARGV[7])
return seq
