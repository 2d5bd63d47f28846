-- Gives the token of a Set. Its put, by set.lua, makes values absent, voids leases and announces that.
-- KEYS: 1 entry. ARGV: 1 '0', the token and its end in ms of the server's clock, 2 its life in ms.
-- Returns 1, or 0 if the good token of a drop is there: the caller then drops the key. The holder of
-- that token would not announce that it was overtaken. The 0 in front tells the two kinds apart.
if redis.call('HSETNX', KEYS[1], 't', ARGV[1]) == 0 then
  local till = string.match(redis.call('HGET', KEYS[1], 't'), '^[1-9a-f]%x* (%d+)$')
  if till then
    local t = redis.call('TIME')
    if tonumber(till) > t[1] * 1000 + math.floor(t[2] / 1000) then
      return 0
    end
  end
  redis.call('HSET', KEYS[1], 't', ARGV[1])
end
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return 1
