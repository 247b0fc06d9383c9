// What the server is asked.

// Problem is an error answer. Its field is that of a form it is about, if any; fields are what is wrong with each of several, and place is
// where in a text, by line and column.
export class Problem extends Error {
  constructor(status, detail, field, fields) { super(detail); this.status = status; this.field = field ?? ''; this.fields = fields ?? {}; }
}

let refused = () => {};
// onRefused says what happens when the server wants to know who asks.
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
    throw new Problem(0, 'The server does not answer. Is it still running?');
  }
  if (answer.ok) return answer.status === 204 ? null : answer.json();
  let p = {};
  try { p = await answer.json(); } catch { /* no problem document: the status has to do */ }
  if (answer.status === 401 && !path.endsWith('/session')) refused();
  throw Object.assign(new Problem(answer.status, p.detail ?? 'the server answered ' + answer.status, p.field, p.fields), { place: p.place });
}

// listen opens a stream of events, and returns a function that ends it. The browser opens it again by itself when it breaks, and says
// which event was the last. probe is asked why when an error answer has ended it for good.
export function listen(path, handlers, onState, probe) {
  const source = new EventSource(path);
  let next = null;
  let ended = false;
  for (const [kind, handle] of Object.entries(handlers)) {
    source.addEventListener(kind, (e) => handle(JSON.parse(e.data)));
  }
  source.onopen = () => onState(true);
  source.onerror = () => {
    onState(false);
    if (source.readyState !== EventSource.CLOSED) return;
    const again = () => setTimeout(() => { if (!ended) next = listen(path, handlers, onState, probe); }, 2000);
    call('GET', probe).then(again, (p) => { if (p.status !== 401) again(); });
  };
  return () => { ended = true; source.close(); next?.(); };
}
