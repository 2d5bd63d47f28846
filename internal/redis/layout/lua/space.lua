-- The common part of the scripts on a namespace.
-- KEYS: 1 namespace state, 2 tags. ARGV: 1 nonce, 2 epoch, 3 drops, 4 expiries and 5 clock
-- of the state that the caller knows, or '' and zeros.

-- The authority is the run of this server and the history that it replicates,
-- or '' if that cannot be read.
local function authority()
  local all = ''
  for _, q in ipairs({ { 'server', 'run_id:(%w+)' }, { 'replication', 'master_replid:(%w+)' } }) do
    local info = redis.pcall('INFO', q[1])
    local found = type(info) == 'string' and string.match(info, q[2])
    if not found then
      return ''
    end
    all = all .. found
  end
  return all
end

local function decimal(text) return string.format('%d', text) end

-- Returns the state as a table. It is made anew, with another epoch, if it is missing or damaged,
-- if it counts less than the caller knows, or if another authority wrote it. Returns nil and an
-- error if the server takes no writes: it was demoted, or may have been, and its data is not the
-- newest.
local function space()
  -- This changes nothing. A server without memory left allows writes that take more only after a
  -- write that takes none, and a drop must not be refused.
  local writes = redis.pcall('PERSIST', KEYS[1])
  if type(writes) == 'table' and writes.err then
    local text = string.match(writes.err, '^%-?([^\r\n]*)')
    if string.find(text, '^READONLY ') or string.find(text, '^NOREPLICAS ') then
      return nil, redis.error_reply(text)
    end
  end
  local f = redis.call('HMGET', KEYS[1], 'epoch', 'drops', 'expiries', 'clock', 'authority')
  local w = { epoch = f[1] and string.match(f[1], '^%x+$') }
  local good = w.epoch
  for i, name in ipairs({ 'drops', 'expiries', 'clock' }) do
    local n = tonumber(f[i + 1] and string.match(f[i + 1], '^%d+$') or -1)
    good = good and n >= 0 and n < 2 ^ 53 and (w.epoch ~= ARGV[2] or n >= tonumber(ARGV[i + 2]))
    w[name] = n
  end
  local mine = authority()
  if not good or mine ~= '' and f[5] ~= mine then
    -- The clock goes on from the highest that is known, or from the time if that is more: every
    -- earlier load is older than the table of tags.
    local clock = math.max(w.clock < 2 ^ 52 and w.clock or 0, tonumber(ARGV[5])) + 1
    clock = math.max(clock, tonumber(redis.call('TIME')[1]) * 1000)
    w = { epoch = ARGV[1], drops = 0, expiries = 0, clock = clock }
    redis.call('DEL', KEYS[1], KEYS[2])
    redis.call('HSET', KEYS[1], 'epoch', w.epoch, 'drops', 0, 'expiries', 0, 'clock', decimal(clock), 'authority', mine)
    redis.call('HSET', KEYS[2], 'floor', decimal(clock))
  end
  return w
end

local function answer(w)
  local t = redis.call('TIME')
  return { w.epoch, w.drops, w.expiries, w.clock, t[1] * 1000 + math.floor(t[2] / 1000) }
end

