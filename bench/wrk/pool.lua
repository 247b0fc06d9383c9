-- Requests out of a file that bench/pool wrote, one at a time a connection.
--
--   wrk ... -s pool.lua http://127.0.0.1:8080 -- FILE
--
-- It is a second opinion on closedloop: with answers of a few kilobytes wrk's own core is the one that
-- is full.

dofile((debug.getinfo(1, "S").source:match("^@(.*/)") or "") .. "summary.lua")

local requests, at = {}, 0

local function number(s, i)
  local a, b, c, d = s:byte(i, i + 3)
  return a + 256 * (b + 256 * (c + 256 * d))
end

function init(args)
  local f = assert(io.open(args[1] or error("pool.lua: say which file: -- FILE"), "rb"))
  local all = f:read("*a")
  f:close()
  local i = 1
  while i <= #all do
    local n = number(all, i)
    requests[#requests + 1] = all:sub(i + 8, i + 7 + n)
    i = i + 8 + n
  end
end

function request()
  at = at % #requests + 1
  return requests[at]
end
