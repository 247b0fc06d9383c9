// An open loop of RATE requests a second for DURATION, each for a random user of USERS: a second
// opinion on bench/openloop by somebody else's tool. k6 costs some 44 us of CPU a request, so one
// core sends about 20,000 a second, which is far below half of what weir answers.
//
//   k6 run -e URL=http://127.0.0.1:8080 -e USERS=5000000 -e RATE=8000 -e DURATION=10s feed.js

import http from "k6/http";
import { check } from "k6";

const { URL = "http://127.0.0.1:8080", USERS = "1", RATE = "8000", DURATION = "10s" } = __ENV;

export const options = {
  discardResponseBodies: true,
  scenarios: {
    feed: {
      executor: "constant-arrival-rate",
      rate: Number(RATE),
      timeUnit: "1s",
      duration: DURATION,
      preAllocatedVUs: 200,
      maxVUs: 400,
    },
  },
  summaryTrendStats: ["med", "p(99)", "max"],
};

export default function () {
  const user = Math.floor(Math.random() * Number(USERS));
  const answer = http.get(`${URL}/feed/${user}`, { tags: { name: "feed" } });
  check(answer, { "status is 200": (r) => r.status === 200 });
}

export function handleSummary(data) {
  const m = data.metrics;
  const micros = (name, stat) => Math.round(m[name].values[stat] * 1000);
  const summary = {
    requests: m.http_reqs.values.count,
    dropped: m.dropped_iterations ? m.dropped_iterations.values.count : 0,
    not2xx: m.checks.values.fails,
    p50: micros("http_req_duration", "med"),
    p99: micros("http_req_duration", "p(99)"),
    max: micros("http_req_duration", "max"),
  };
  return { stdout: `summary: ${JSON.stringify(summary)}\n` };
}
