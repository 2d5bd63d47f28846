-- Reads a value with its state, but no value that the caller has.
-- KEYS: 1 entry. ARGV: 1 schema, 2 id of the value that the caller has.
-- Returns {value, 1 if the caller has it, or false, state or false}.
local schema = ARGV[1]
local state = redis.call('HGET', KEYS[1], 's' .. schema)
local id = string.match(state or '', '^%d+ %d+ (%x+) %S+$')
if id and same(schema, id, ARGV[2]) then
  return { 1, state }
end
return { redis.call('HGET', KEYS[1], 'v' .. schema), state }
