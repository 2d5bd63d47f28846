-- Removes what is not a hash from a key that must hold one: somebody else
-- wrote it.
-- KEYS: 1 entry. Returns 1 if there was something to remove.
local t = redis.call('TYPE', KEYS[1])
if type(t) == 'table' then
  t = t['ok']
end
if t == 'hash' or t == 'none' then
  return 0
end
return redis.call('DEL', KEYS[1])
