-- Notes the drops of tags at new clocks, and announces them.
-- ARGV: 6 'd:' or 'e:', 7 channel, 8 head of the messages, 9 most fields, 10... tags.
-- Returns {epoch, drops, expiries, clock, now in ms}.
local w, refused = space()
if refused then
  return refused
end

if redis.call('HLEN', KEYS[2]) > tonumber(ARGV[9]) then
  redis.call('DEL', KEYS[2])
end
-- A missing hash has lost the drops of all tags: they count as dropped at a
-- clock that no lease has yet.
local floor = redis.call('HGET', KEYS[2], 'floor')
if not floor or not string.find(floor, '^%d+$') or #floor > 15 then -- Lua counts no further
  w.clock = redis.call('HINCRBY', KEYS[1], 'clock', 1)
  redis.call('DEL', KEYS[2])
  redis.call('HSET', KEYS[2], 'floor', decimal(w.clock))
end
for i = 10, #ARGV do
  local was = decimal(w.clock)
  w.clock = redis.call('HINCRBY', KEYS[1], 'clock', 1)
  local is = decimal(w.clock)
  redis.call('HSET', KEYS[2], ARGV[6] .. ARGV[i], is)
  redis.call('PUBLISH', ARGV[7], ARGV[8] .. was .. '.0 ' .. is .. '.0 0 ' .. ARGV[i])
end
return answer(w)
