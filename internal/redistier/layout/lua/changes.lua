-- Says in short how far the changes of this server's data have come.
-- ARGV: 1 whether it is one of a cluster. Returns a text, or '' if INFO does
-- not say.
local function fields(info, names)
  local all = {}
  for i, name in ipairs(names) do
    all[i] = type(info) == 'string' and string.match(info, name .. ':(%w+)') or ''
  end
  return all
end

local counts = fields(redis.pcall('INFO', 'persistence'), { 'rdb_changes_since_last_save', 'rdb_last_save_time', 'rdb_saves' })
if counts[1] == '' or counts[2] == '' then
  return ''
end
local text = table.concat(counts, ' ')
if ARGV[1] == '1' then
  local state = fields(redis.pcall('CLUSTER', 'INFO'), { 'cluster_state', 'cluster_current_epoch', 'cluster_my_epoch' })
  text = text .. ' ' .. table.concat(state, ' ')
end
return text
