import { $, h, announce } from './dom.js';
import { call } from './api.js';
import { listen } from './live.js';
import { section, every, tiles } from './section.js';
import * as f from './format.js';

const order = ['bad', 'warn', 'unseen', 'ok'];
const words = { bad: 'Bad', warn: 'Warning', unseen: 'Not seen', ok: 'Right' };

function table(label, heads, rows) {
  return h('div', { class: 'scroll', tabindex: '0', role: 'group', 'aria-label': label }, h('table', { class: 'figures' },
    h('thead', {}, h('tr', {}, heads.map((t) => h('th', { scope: 'col' }, t)))), h('tbody', {}, rows)));
}

function draw(s) {
  $('cluster-loading').hidden = true;
  $('cluster-found').hidden = false;
  const lost = s.shards.filter((sh) => sh.error).length;
  tiles($('cluster-engine'), [['Shards', f.count(s.shards.length)], ['Not reached', f.count(lost), lost > 0],
    ['Replicas that must have a change', f.count(s.replicas), s.replicas === 0], ['Prefix of keys', s.prefix],
    ['While it is lost', s.lost === 'refuse' ? 'feeds are 503' : 'fallback items'], ...(s.unsafe ? [['Unsafe', 'allowed', true]] : [])]);
  $('cluster-shards').replaceChildren(s.shards.length === 0 ? h('p', { class: 'muted' }, 'No shard is known.')
    : table('Shards', ['Primary', 'Replicas', 'Slots', 'Queued', 'State'], s.shards.map((sh) => h('tr', {}, h('th', { scope: 'row' }, sh.address),
      h('td', {}, sh.replicas.join(', ') || f.NONE), h('td', {}, f.count(sh.slots)), h('td', {}, f.count(sh.queued)), h('td', {}, sh.error || 'connected')))));
  tiles($('cluster-commands'), [['Commands', f.count(s.commands)], ['In one write', s.batches ? (s.commands / s.batches).toFixed(1) : f.NONE],
    ['Replicas take, median', s.wait_p50 ? f.micros(s.wait_p50 * 1e6) : f.NONE], ['99th percentile', s.wait_p99 ? f.micros(s.wait_p99 * 1e6) : f.NONE],
    ['Not executed', f.count(s.unavailable), s.unavailable > 0 && 'warn'], ['On too few replicas', f.count(s.unreplicated), s.unreplicated > 0 && 'warn'],
    ['Not answered', f.count(s.unknown), s.unknown > 0 && 'warn'], ['Refused as wrong', f.count(s.errors), s.errors > 0 && 'warn'],
    ['Sent elsewhere', f.count(s.moved + s.asked)]]);
  report(s.report);
}

function report(r) {
  const findings = [...r.findings].sort((a, b) => Boolean(b.breaks_promise) - Boolean(a.breaks_promise) || order.indexOf(a.severity) - order.indexOf(b.severity));
  const bad = findings.filter((x) => x.severity === 'bad').length;
  $('cluster-checked').textContent = (r.error ? 'The engine cannot be asked: ' + r.error + '. This is of before. ' : '')
    + (bad ? `${bad} of ${findings.length} are bad. ` : 'Nothing is bad. ') + 'Looked at ' + f.when(r.at) + '.';
  $('cluster-findings').replaceChildren(table('Settings of the engine', ['Setting', 'Is', 'Found'], findings.map((x) => h('tr', {},
    h('th', { scope: 'row' }, x.check), h('td', {}, x.breaks_promise ? 'Breaks a promise' : words[x.severity]),
    h('td', {}, x.found, x.why ? h('p', { class: 'muted' }, x.why) : null, x.mend ? h('p', { class: 'cluster-mend' }, x.mend) : null)))));
}

const refresh = section($('cluster'), () => call('GET', '/admin/cluster'), draw);
every(2000, refresh);
listen('snapshot', refresh);

$('cluster-check').addEventListener('click', async () => {
  const button = $('cluster-check');
  button.disabled = true;
  try {
    report(await call('POST', '/admin/cluster/check'));
    announce('The settings of the engine were looked at.');
  } catch (problem) {
    $('cluster-checked').textContent = problem.message;
  }
  button.disabled = false;
});
