-- Returns a short text that differs after any change of this server's data, or '' if INFO does
-- not report changes. ARGV: 1 whether the server is part of a cluster.
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
