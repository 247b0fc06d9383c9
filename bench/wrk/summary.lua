-- Prints what bench/run reads: one line of JSON after "summary: ", times in microseconds. Alone it
-- makes wrk repeat the one request of its URL; feed.lua and pipeline.lua load it for its done().

function done(summary, latency)
  local e = summary.errors
  print(string.format(
    'summary: {"requests":%d,"micros":%d,"p50":%d,"p99":%d,"max":%d,"not2xx":%d,"socket_errors":%d}',
    summary.requests, summary.duration, latency:percentile(50), latency:percentile(99), latency.max,
    e.status, e.connect + e.read + e.write + e.timeout))
end
