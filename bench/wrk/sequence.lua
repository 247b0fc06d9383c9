-- One request at a time a connection, for the given paths in turn, whichever connection asks.
--
--   wrk -t1 ... -s sequence.lua http://127.0.0.1:8080 -- /next /previous
--
-- The turns are the thread's: with one thread (-t1) as many requests go up as down, and the index
-- stays within the number of connections of where it began.

dofile((debug.getinfo(1, "S").source:match("^@(.*/)") or "") .. "summary.lua")

local requests, at = {}, 0

function init(args)
  for i = 1, #args do
    requests[i] = "GET " .. args[i] .. " HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
  end
  if #requests == 0 then
    error("sequence.lua: say what to ask for: -- PATH...")
  end
end

function request()
  at = at % #requests + 1
  return requests[at]
end
