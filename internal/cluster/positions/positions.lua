-- Positions of users, as package positions says. The suite compares these functions with a plain
-- implementation in Go.
--
-- A cell is 8 bytes, both parts big-endian: 6 of the tag of a list, 2 of the position in it. One of zeros
-- is nobody's. Versions are 8 bytes, big-endian.

-- What the engine offers is not there yet while a library loads.
local call, byte, char, sub, floor
local function bind()
  call, byte, char, sub, floor = redis.call, string.byte, string.char, string.sub, math.floor
end

local ZEROS = '\0\0\0\0\0\0\0\0'
local LAST = '4072' -- where the last cell of a string begins

-- newer says whether version a is greater than b. Lua would compare them as the locale has it.
local function newer(a, b)
  if a == b then
    return false
  end
  for i = 1, 8 do
    local x, y = byte(a, i), byte(b, i)
    if x ~= y then
      return x > y
    end
  end
end

-- move returns the answer to an operation, and the cell to write if there is a change. The answer is
-- 65536 times the position before, plus that after; -1 where newer lists are in use.
local function move(cell, newest, version, tag, length, op, n, at)
  length = length + 0
  local from = 0
  if cell and sub(cell, 1, 6) == tag then
    local high, low = byte(cell, 7, 8)
    from = high * 256 + low
    if from > length then
      from = length
    end
  elseif newer(newest, version) then
    return -1
  end
  local to = from
  if op == 'advance' then
    to = from + n
  elseif op == 'step' then
    if from == at + 0 then
      to = from + n
    end
  elseif op == 'raise' then
    if n + 0 > from then
      to = n + 0
    end
  elseif op == 'set' then
    to = n + 0
  end
  if to > length then
    to = length
  end
  if to < 0 then
    to = 0
  end
  if to == from then
    return from * 65537
  end
  return from * 65536 + to, tag .. char(floor(to / 256), to % 256)
end

-- string_cell: FCALL string_cell 1 KEY BEGIN END VERSION TAG LENGTH OP N [AT]
--
-- The cell is the bytes BEGIN to END of a string, the first 8 of which are the newest version by which one
-- of its cells was changed. A string is made as a whole, since one that grows takes twice what it needs.
define('string_cell', function(keys, args)
  if not call then
    bind()
  end
  local key, version = keys[1], args[3]
  local cell = call('GETRANGE', key, args[1], args[2])
  local newest = call('GETRANGE', key, '0', '7')
  if newest == '' then
    newest = ZEROS
  end
  local answer, changed
  if args[6] == 'forget' then
    answer = 0
    if cell ~= '' and cell ~= ZEROS then
      answer, changed = 1, ZEROS
    end
  else
    answer, changed = move(cell, newest, version, args[4], args[5], args[6], args[7], args[8])
  end
  if changed then
    if newer(version, newest) then
      if newest == ZEROS then
        call('SETRANGE', key, LAST, ZEROS)
      end
      call('SETRANGE', key, '0', version)
    end
    call('SETRANGE', key, args[1], changed)
  end
  return answer
end)

-- hash_cell: FCALL hash_cell 1 KEY FIELD VERSION TAG LENGTH OP N [AT]
--
-- The cell is a field of a small hash, whose field g is the newest version by which one of them was changed.
define('hash_cell', function(keys, args)
  if not call then
    bind()
  end
  local key, field, version = keys[1], args[1], args[2]
  local values = call('HMGET', key, 'g', field)
  local newest, cell = values[1] or ZEROS, values[2]
  local raise = newer(version, newest)
  if args[5] == 'forget' then
    if not cell then
      return 0
    end
    if raise then
      call('HSET', key, 'g', version)
    end
    return call('HDEL', key, field)
  end
  local answer, changed = move(cell, newest, version, args[3], args[4], args[5], args[6], args[7])
  if changed then
    if raise then
      call('HSET', key, 'g', version, field, changed)
    else
      call('HSET', key, field, changed)
    end
  end
  return answer
end)

-- prepare: FCALL prepare 1 KEY VERSION SLOTS
--
-- SLOTS is how many users dense lists have, and -1 for other lists. The answer is the newest version that
-- has been in use, and the bound below which numbers are in strings. Where that version is newer nothing
-- changes.
define('prepare', function(keys, args)
  if not call then
    bind()
  end
  local values = call('HMGET', keys[1], 'newest', 'bound', 'fixed')
  local newest, bound = values[1] or ZEROS, tonumber(values[2] or 0)
  if newer(newest, args[1]) then
    return {newest, bound}
  end
  local slots = tonumber(args[2])
  if slots < 0 then
    call('HSET', keys[1], 'fixed', '1')
  elseif not values[3] and slots > bound then
    bound = slots
    call('HSET', keys[1], 'bound', string.format('%.0f', bound))
  end
  return {newest, bound}
end)

-- use: FCALL use 1 KEY VERSION
define('use', function(keys, args)
  if not call then
    bind()
  end
  if newer(args[1], call('HGET', keys[1], 'newest') or ZEROS) then
    call('HSET', keys[1], 'newest', args[1])
  end
  return 1
end)

-- swap: FCALL swap 1 KEY FROM TO moves an index, whose numbers are in decimal, and says whether it was there.
define('swap', function(keys, args)
  if not call then
    bind()
  end
  if (call('GET', keys[1]) or '0') ~= args[1] then
    return 0
  end
  call('SET', keys[1], args[2])
  return 1
end)
