// The pages and what goes on between them.

import { $, announce, trouble } from './dom.js';
import { call, listen, onRefused } from './api.js';
import { PlanForm } from './form.js';
import { Live } from './live.js';
import { History } from './history.js';
import { closeResult, showComparison, showResult } from './result.js';

const PAGES = ['login', 'run', 'history', 'result', 'compare'];
let current = '';
let wanted = false; // the token

const form = new PlanForm($('plan'), {
  onChange: (short) => { $('plan-short').textContent = short; },
  onCheck: async (plan) => {
    form.busy(live.busy, true);
    try {
      const { what } = await call('POST', '/api/plan/check', plan);
      form.ok('Good: ' + what);
    } catch (problem) { form.error(problem); }
    form.busy(live.busy, false);
  },
  onStart: async (plan) => {
    form.clear();
    form.busy(live.busy, true);
    try {
      await call('POST', '/api/runs', plan);
      form.keep(plan);
      if (narrow.matches) $('plan-panel').open = false;
      $('run-title').focus();
    } catch (problem) { form.error(problem); }
    form.busy(live.busy, false);
  },
});
const narrow = matchMedia('(max-width: 60rem)');

const live = new Live({ refresh: () => connect() });
const history = new History({ rerun });

function rerun(plan) {
  form.clear();
  form.fill(plan);
  $('plan-panel').open = true;
  location.hash = '#/';
  announce('The form has the plan of that run.');
}

let unlisten = () => {};

function connect() {
  unlisten();
  unlisten = listen('/api/events', {
    snapshot: (s) => {
      live.snapshot(s);
      form.busy(live.busy, false);
      if (!live.run.id) history.recent();
    },
    run: (r) => {
      live.status(r);
      $('recent').hidden ||= Boolean(r.id); form.busy(live.busy, r.state === 'starting');
    },
    point: (p) => live.point(p),
    history: () => { if (current === 'history') history.load(); },
  }, (there) => {
    if (there) trouble('');
    else if (!wanted) trouble('The connection to weir load ui is lost. Trying again.');
  }, '/api/run');
}

// route shows the page that the address names.
function route() {
  const [page, ...rest] = location.hash.replace(/^#\/?/, '').split('/').map(decode);
  trouble('');
  $('pages').hidden = $('state').hidden = wanted;
  if (wanted) return show('login', 'Token');
  if (page === 'history' && rest[0]) { show('result', 'Result'); showResult(rest[0], { rerun }); }
  else if (page === 'history') { show('history', 'History'); history.load(); }
  else if (page === 'compare' && rest.length === 2) { show('compare', 'Compared'); showComparison(rest[0], rest[1]); }
  else { show('run', 'Run'); live.drawSoon(0); }
}

function decode(text) {
  try { return decodeURIComponent(text); } catch { return text; }
}

function show(page, title) {
  const first = current === '';
  const moved = current !== page;
  current = page;
  if (page !== 'result' && page !== 'compare') closeResult();
  for (const p of PAGES) $('page-' + p).hidden = p !== page;
  document.title = title + ' \u00b7 weir load';
  for (const a of document.querySelectorAll('nav a')) {
    const here = a.dataset.page === (page === 'result' || page === 'compare' ? 'history' : page);
    if (here) a.setAttribute('aria-current', 'page'); else a.removeAttribute('aria-current');
  }
  if (!first && moved) $(page === 'login' ? 'token' : page + '-title').focus();
}

onRefused(() => {
  wanted = true;
  route();
  $('token').focus();
});

async function login(token) {
  try {
    await call('POST', '/api/session', { token });
    wanted = false;
    $('token').value = '';
    connect();
    route();
  } catch (problem) {
    $('token-error').textContent = problem.message;
    $('token-error').hidden = false;
    $('token').setAttribute('aria-invalid', 'true');
    $('token').focus();
  }
}
$('login').addEventListener('submit', (e) => { e.preventDefault(); login($('token').value); });

window.addEventListener('hashchange', () => route());

// #token=... is how the printed address says it. A fragment is not sent, and is taken out of the address at once.
const given = /^#token=(.+)$/.exec(location.hash);
if (given) {
  window.history.replaceState(null, '', location.pathname);
  login(decode(given[1]));
} else {
  call('GET', '/api/run').then(connect, (problem) => { if (problem.status !== 401) { trouble(problem.message); connect(); } });
}
route();
document.documentElement.dataset.ready = 'yes';
