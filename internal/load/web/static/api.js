// What the server is asked.

// Problem is an error answer. Its field is that of the plan it is about, if any.
export class Problem extends Error {
  constructor(status, detail, field) { super(detail); this.status = status; this.field = field ?? ''; }
}

let refused = () => {};
// onRefused says what happens when the server wants the token.
export function onRefused(f) { refused = f; }

export async function call(method, path, body) {
  let answer;
  try {
    answer = await fetch(path, {
      method,
      headers: body === undefined ? {} : { 'Content-Type': 'application/json' },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch {
    throw new Problem(0, 'weir load ui does not answer. Is it still running?');
  }
  if (answer.ok) return answer.status === 204 ? null : answer.json();
  let p = {};
  try { p = await answer.json(); } catch { /* no problem document: the status has to do */ }
  if (answer.status === 401 && path !== '/api/session') refused();
  throw new Problem(answer.status, p.detail ?? 'the server answered ' + answer.status, p.field);
}

let source = null;

// listen opens the stream of events. The browser opens it again by itself when it breaks, and says which event was the last.
export function listen(handlers, onState) {
  if (source) source.close();
  source = new EventSource('/api/events');
  for (const kind of ['snapshot', 'run', 'point', 'history']) {
    source.addEventListener(kind, (e) => handlers[kind](JSON.parse(e.data)));
  }
  const mine = source;
  source.onopen = () => onState(true);
  source.onerror = () => {
    onState(false);
    if (mine.readyState !== EventSource.CLOSED) return;
    // An error answer ends the stream for good. Why it came, another request tells.
    call('GET', '/api/run').then(() => setTimeout(() => { if (mine === source) listen(handlers, onState); }, 2000), (p) => {
      if (p.status !== 401) setTimeout(() => { if (mine === source) listen(handlers, onState); }, 2000);
    });
  };
}
