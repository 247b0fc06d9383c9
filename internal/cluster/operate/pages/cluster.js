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
  nodes(s.nodes);
  report(s.report);
}

function nodes(n) {
  const gone = n.members.filter((m) => !m.here).length;
  $('cluster-nodes-state').textContent = n.error ? `The engine does not answer: ${n.error}. This is of ${f.when(n.at)}.` : '';
  const lists = (name, p) => p && [name, h('span', {}, p.number, h('small', { class: 'cluster-lists' },
    `${p.have} of ${p.of} nodes ${name === 'Lists that serve' ? 'serve it' : 'have it'}, of ${f.when(p.at)}` + (p.again ? `, those of ${p.again} again` : ''))), 'wide'];
  tiles($('cluster-lists'), [['Nodes', f.count(n.members.length - gone)], ...(gone ? [['Gone', f.count(gone), true]] : []),
    lists('Lists that serve', n.serving) || ['Lists that serve', 'none yet'], lists('Being prepared', n.preparing)].filter(Boolean));
  $('cluster-nodes').replaceChildren(n.members.length === 0 ? h('p', { class: 'muted' }, 'No node is known yet.')
    : table('Nodes', ['Node', 'State', 'Heard of', 'Serves', 'Mapped', 'Skipped items', 'Events behind', 'Filters behind', 'weir'], n.members.map((m) => {
      const figures = m.figures || {}, has = m.lists || {};
      return h('tr', {}, h('th', { scope: 'row' }, m.address, h('small', {}, m.id + (m.self ? ', this node' : ''))), h('td', {}, state(m, n)),
        h('td', {}, f.seconds(m.age) + ' ago'), h('td', {}, has.serves || f.NONE), h('td', {}, has.mapped || f.NONE), h('td', {}, f.count(figures.skipped)),
        h('td', {}, f.seconds(figures.events_behind)), h('td', {}, f.seconds(figures.filters_behind)), h('td', {}, m.version));
    })));
}

function state(m, n) {
  if (!m.here) return 'gone';
  const has = m.lists;
  if (!has) return 'there, without feeds';
  const at = has.total ? ` (${f.percent(has.done / has.total)})` : '';
  if (has.error) return `wants ${has.wants}: ${has.error}`;
  if (has.wants && has.wants !== has.mapped) return `${has.stage || 'wants'} ${has.wants}${at}`;
  return n.serving && has.serves !== n.serving.number ? 'behind' : 'there';
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
