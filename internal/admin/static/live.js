// What happens, told by the server: one stream for all of a page. The browser resumes it after the last event it has heard; after
// 'snapshot' what a page has may be out of date, and it asks again.

import { $ } from './dom.js';
import { listen as open } from './api.js';

const listeners = {};
let stop = null;

// listen calls handle with the data of every event of a kind from now on: second, log, errors, setting, snapshot.
export function listen(kind, handle) {
  (listeners[kind] ??= []).push(handle);
  if (stop) stop();
  stop = null;
  // All that a page listens to, at once.
  queueMicrotask(() => {
    if (stop) return;
    const handlers = Object.fromEntries(Object.entries(listeners).map(([k, all]) => [k, (data) => all.forEach((f) => f(data))]));
    stop = open('/admin/events', handlers, say, '/admin/overview');
  });
}

function say(connected) {
  $('connection').dataset.state = connected ? 'running' : 'failed';
  $('connection-text').textContent = connected ? 'Live' : 'Not connected, trying again';
}
