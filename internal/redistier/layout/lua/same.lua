-- The common part of the scripts that leave out a value which their caller has.

-- Returns whether the value of a schema with that id has the bytes of the one with the id known:
-- it is that value, or was extended since.
local function same(schema, id, known)
  if id == known then
    return true
  end
  local earlier = redis.call('HGET', KEYS[1], 'e' .. schema)
  local of, before = string.match(earlier or '', '^(%x+)( .*)$')
  return of == id and string.find(before .. ' ', ' ' .. known .. ' ', 1, true) ~= nil
end

