-- One request at a time a connection, each for a user drawn at random from 0..USERS-1.
--
--   wrk ... -s feed.lua http://127.0.0.1:8080 -- USERS SEED
--
-- Ids are drawn for every request and not taken from a prepared pool: a pool that fits wrk's memory
-- would ask for few users often, which keeps their lists in the processor's caches and runs them
-- out of items. Drawing costs wrk a tenth of its rate.

dofile((debug.getinfo(1, "S").source:match("^@(.*/)") or "") .. "summary.lua")

local users = 1

function init(args)
  users = tonumber(args[1]) or error("feed.lua: say how many users there are: -- USERS SEED")
  math.randomseed(tonumber(args[2]) or 1)
end

function request()
  return "GET /feed/" .. math.random(0, users - 1) .. " HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
end
