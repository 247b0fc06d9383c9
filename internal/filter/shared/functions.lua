-- mark is a row's part of the sum: 48 bits, so that a double holds all sums. None of it is secret.
local function mark(key, value)
  if value == '' then return 0 end
  return tonumber(string.sub(redis.sha1hex(key .. '\0' .. value), 1, 12), 16)
end

-- write changes rows, all or none, and appends what it has changed to the log as one entry: keys and values,
-- with # and the sum over all rows first. A key that begins with ! is told to all nodes and is no row.
-- KEYS rows, log; ARGV the rows' name as the node knows it ("" for none yet), what they are named if they have
-- none, then by threes key, the value it must have ("" for none, * for any), the new one ("" to
-- remove it). A change that was made already is no conflict, so a repeated one is none.
define('filter_write', function(keys, args)
  local entry, sum = {}, tonumber(redis.call('HGET', keys[1], '#') or '0')
  local name = redis.call('HGET', keys[1], '@') or ''
  if args[1] ~= '' and name ~= args[1] then return {'lost'} end
  for i = 3, #args, 3 do
    local key, was, value = args[i], args[i + 1], args[i + 2]
    local is = redis.call('HGET', keys[1], key) or ''
    if is ~= value then
      if was ~= '*' and was ~= is then
        return {is == '' and 'missing' or 'changed'}
      end
      entry[#entry + 1], entry[#entry + 2] = key, value
      if string.sub(key, 1, 1) ~= '!' then
        sum = (sum + mark(key, value) - mark(key, is)) % 281474976710656
      end
    end
  end
  if #entry == 0 then
    local last = redis.call('XREVRANGE', keys[2], '+', '-', 'COUNT', 1)
    return {'ok', last[1] and last[1][1] or ''}
  end
  for i = 1, #entry, 2 do
    if string.sub(entry[i], 1, 1) == '!' then
      -- is no row
    elseif entry[i + 1] == '' then
      redis.call('HDEL', keys[1], entry[i])
    else
      redis.call('HSET', keys[1], entry[i], entry[i + 1])
    end
  end
  sum = string.format('%.0f', sum)
  redis.call('HSET', keys[1], '#', sum, '@', name == '' and args[2] or name)
  return {'ok', redis.call('XADD', keys[2], 'MAXLEN', '~', 1000, '*', '#', sum, unpack(entry))}
end)

-- changes returns what the log has behind a position; "reload" if it no longer has the position, or if that
-- has another sum than expected ("" for any); "lost" if the rows are others.
-- KEYS rows, log; ARGV the rows' name, position, sum, how many entries at most.
define('filter_changes', function(keys, args)
  if redis.call('HGET', keys[1], '@') ~= args[1] then return {'lost'} end
  local at = redis.call('XRANGE', keys[2], args[2], args[2])[1]
  if not at or args[3] ~= '' and at[2][2] ~= args[3] then return {'reload'} end
  return {'ok', redis.call('XRANGE', keys[2], '(' .. args[2], '+', 'COUNT', args[4])}
end, 'no-writes')

-- turn gives a node the lease of a source, unless another has it, or has fetched the source since.
-- KEYS lease, state; ARGV token, milliseconds, how often the source was tried as far as the node knows.
define('filter_turn', function(keys, args)
  local tried = redis.call('HGET', keys[2], 'tried')
  if tried and tonumber(tried) > tonumber(args[3]) then
    return {'newer', redis.call('HGET', keys[2], 'state')}
  end
  return {redis.call('SET', keys[1], args[1], 'NX', 'PX', args[2]) and 'yours' or 'taken'}
end)

-- extend makes a lease last from now on, if it is still the node's.
-- KEYS lease; ARGV token, milliseconds.
define('filter_extend', function(keys, args)
  return redis.call('GET', keys[1]) == args[1] and redis.call('PEXPIRE', keys[1], args[2]) or 0
end)

-- done publishes how a fetch went, unless another node has done so or is about to, and ends the lease. What
-- came before stays as long as it would have, for who has yet to take it: it is told by its version.
-- KEYS lease, state, body; ARGV token, tried, state or "" for none, its milliseconds, body or "", its
-- milliseconds.
define('filter_done', function(keys, args)
  local holder = redis.call('GET', keys[1])
  if holder and holder ~= args[1] then return 0 end
  redis.call('DEL', keys[1])
  local tried = redis.call('HGET', keys[2], 'tried')
  if args[3] == '' or tried and tonumber(tried) >= tonumber(args[2]) then return 0 end
  redis.call('HSET', keys[2], 'tried', args[2], 'state', args[3])
  redis.call('PEXPIRE', keys[2], args[4])
  if args[5] ~= '' then redis.call('SET', keys[3], args[5], 'PX', args[6]) end
  return 1
end)
