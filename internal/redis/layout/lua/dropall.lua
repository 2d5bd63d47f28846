-- Makes all values of a namespace absent, or stale, by changing the namespace state, and
-- announces that.
-- ARGV: 6 'drops' or 'expiries', 7 channel, 8 head of the message.
-- Returns {epoch, drops, expiries, clock, now in ms}.
local w, refused = space()
if refused then
  return refused
end
w[ARGV[6]] = redis.call('HINCRBY', KEYS[1], ARGV[6], 1)
redis.call('PUBLISH', ARGV[7], ARGV[8] .. string.format('%d.0 0 ', w[ARGV[6]]))
return answer(w)
