-- DEPTH (16) requests at a time a connection, from a pool made before the run: at a million requests
-- a second wrk's own core has no time to write them.
--
--   wrk ... -s pipeline.lua http://127.0.0.1:8080 -- USERS SEED [DEPTH [POOL]]
--
-- The pool holds POOL (65,536) batches for users drawn at random from 0..USERS-1, a million users
-- by default, and is walked in order from a random place. A million lists are far beyond the
-- caches, and at 20 answers a list they last for 20 million requests; longer runs want a server
-- started anew. wrk's percentiles mean nothing under pipelining: its rate does.

dofile((debug.getinfo(1, "S").source:match("^@(.*/)") or "") .. "summary.lua")

local pool, at = {}, 0

function init(args)
  local users = tonumber(args[1]) or error("pipeline.lua: say how many users there are: -- USERS SEED")
  math.randomseed(tonumber(args[2]) or 1)
  local depth, size = tonumber(args[3]) or 16, tonumber(args[4]) or 65536
  local batch = {}
  for i = 1, size do
    for j = 1, depth do
      batch[j] = "GET /feed/" .. math.random(0, users - 1) .. " HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    end
    pool[i] = table.concat(batch)
  end
  at = math.random(0, size - 1)
end

function request()
  at = at % #pool + 1
  return pool[at]
end
