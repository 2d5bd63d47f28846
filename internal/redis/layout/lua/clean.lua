-- Removes a key if it is not of the type that it must have: another program wrote it.
-- KEYS: 1 key. ARGV: 1 type. Returns 1 if the key was removed.
local t = redis.call('TYPE', KEYS[1])
if type(t) == 'table' then
  t = t['ok']
end
if t == ARGV[1] or t == 'none' then
  return 0
end
return redis.call('DEL', KEYS[1])
