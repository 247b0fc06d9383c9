// Warnings and errors by their cause, and the log as it is written.

import { $, h, add, announce, sure, trouble } from './dom.js';
import { call } from './api.js';
import { count, when } from './format.js';
import { listen } from './live.js';

const clock = new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit', second: '2-digit', hour12: false });
const exact = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'medium' });
const level = (name) => h('span', { class: `level level-${name}` }, name);

// Errors.

const open = new Map(); // groups whose samples are shown, by their number: what they show

function attributes(line) {
  return [line.attrs.length ? h('dl', { class: 'errors-attrs' }, line.attrs.map((a) => [h('dt', {}, a.name), h('dd', {}, a.value)])) : null,
    line.stack ? h('pre', { class: 'errors-stack', tabindex: '0', 'aria-label': 'Stack' }, line.stack.join('\n')) : null];
}

function samples(group) {
  return [h('ul', { class: 'errors-samples' }, group.samples.map((line) => h('li', {}, h('p', { class: 'hint' }, h('time', { datetime: line.time }, exact.format(new Date(line.time)))), attributes(line)))),
    h('div', { class: 'actions errors-more' }, group.count > group.samples.length ? h('span', { class: 'hint' }, `The last ${group.samples.length} of ${count(group.count)}.`) : null,
      sure('Clear this', 'Really clear it?', () => clear(group.group)))];
}

function shown(group) {
  const details = h('details', { 'data-group': group.group },
    h('summary', {}, level(group.level), h('span', { class: 'errors-message' }, group.message), h('span', { class: 'errors-count' }, count(group.count) + '×'),
      h('span', { class: 'errors-meta' }, [group.service, group.kind].filter(Boolean).join(' · '), ' · last ', h('time', { datetime: group.last }, when(group.last)),
        group.count > 1 ? [', first ', h('time', { datetime: group.first }, when(group.first))] : null)),
    samples(group));
  details.open = open.has(group.group);
  details.addEventListener('toggle', () => { if (details.open) open.set(group.group, true); else open.delete(group.group); });
  return details;
}

let asked = false;

// load asks for the errors. While a clear is being confirmed what is there stays.
async function load() {
  if (asked) return;
  asked = true;
  try {
    const answer = await call('GET', '/admin/errors');
    const box = $('errors-list');
    if (box.querySelector('button.asked')) return;
    const focused = document.activeElement?.closest?.('[data-group]')?.dataset.group;
    box.replaceChildren(...answer.groups.map(shown));
    if (focused) box.querySelector(`[data-group="${focused}"] summary`)?.focus();
    if (!answer.groups.length) box.replaceChildren(h('p', { class: 'muted' }, 'No warnings and no errors since they were last cleared, or the server began.'));
    box.setAttribute('aria-busy', 'false');
    all.hidden = !answer.groups.length;
    trouble('');
  } catch (problem) {
    trouble(`The errors could not be loaded: ${problem.message}`);
  } finally {
    asked = false;
  }
}

async function clear(group) {
  try {
    const answer = await call('DELETE', '/admin/errors' + (group ? '?group=' + group : ''));
    announce(`${answer.cleared} cleared.`);
    await load();
  } catch (problem) {
    trouble(problem.message);
  }
}

const all = sure('Clear all', 'Really clear all?', () => clear(0), { hidden: true });
$('errors-clear').replaceWith(all);

// The log.

const most = 2000; // lines that are kept here, as at the server
const atOnce = 500; // lines that are shown
let lines = [];
let last = 0;
let paused = false;
let drawing = false;
const services = new Set();

const wanted = () => {
  const order = ['debug', 'info', 'warn', 'error'];
  const least = order.indexOf($('log-level').value);
  const service = $('log-service').value;
  const text = $('log-text').value.trim().toLowerCase();
  return (line) => order.indexOf(line.level) >= least && (!service || line.service === service) &&
    (!text || line.message.toLowerCase().includes(text) || line.attrs.some((a) => `${a.name}=${a.value}`.toLowerCase().includes(text)));
};

function lineOf(line) {
  return add(h('div', { class: 'log-line' }), h('time', { datetime: line.time }, clock.format(new Date(line.time))), ' ', level(line.level), ' ',
    h('span', { class: 'log-of' }, line.service), ' ', h('strong', {}, line.message),
    line.attrs.map((a) => [' ', h('span', { class: 'log-name' }, a.name + '='), a.value]));
}

function draw() {
  drawing = false;
  if (paused) return;
  const box = $('log-lines');
  const follows = box.scrollHeight - box.scrollTop - box.clientHeight < 40;
  const found = lines.filter(wanted());
  box.replaceChildren(...found.slice(-atOnce).map(lineOf));
  if (!found.length) box.append(h('p', { class: 'muted' }, lines.length ? 'No line fits the filter.' : 'Nothing was logged yet.'));
  if (follows) box.scrollTop = box.scrollHeight;
  state(found.length);
}

function state(found) {
  $('log-state').textContent = paused ? 'Paused. New lines are kept.' : `${count(found)} of ${count(lines.length)} lines` +
    (found > atOnce ? `, the last ${atOnce} shown` : '') + '.';
}

// soon draws once a frame, however many lines come.
function soon() {
  if (drawing) return;
  drawing = true;
  requestAnimationFrame(draw);
}

function take(line) {
  if (line.seq <= last) return; // known from before
  last = line.seq;
  lines.push(line);
  if (lines.length > most) lines = lines.slice(-most);
  if (!services.has(line.service)) {
    services.add(line.service);
    const chosen = $('log-service').value;
    $('log-service').replaceChildren(h('option', { value: '' }, 'all'), ...[...services].sort().map((s) => h('option', { value: s }, s)));
    $('log-service').value = chosen;
  }
  soon();
}

// catchUp asks for the lines that have come since the last one that is known.
async function catchUp() {
  try {
    const answer = await call('GET', '/admin/log?after=' + last);
    if (answer.last < last) { lines = []; last = 0; return catchUp(); } // another process
    answer.lines.forEach(take);
    soon();
  } catch (problem) {
    $('log-state').textContent = `The log could not be loaded: ${problem.message}`;
  }
}

$('log-filter').addEventListener('submit', (e) => e.preventDefault());
for (const id of ['log-level', 'log-service', 'log-text']) $(id).addEventListener('input', soon);
$('log-pause').addEventListener('click', () => {
  paused = !paused;
  $('log-pause').setAttribute('aria-pressed', paused);
  $('log-pause').textContent = paused ? 'Go on' : 'Pause';
  state(0);
  soon();
});

let early = []; // lines that come before what was there is known
const live = (line) => early ? early.push(line) : take(line);
listen('log', live);
listen('errors', load);
listen('snapshot', () => { load(); catchUp(); });
load();
catchUp().then(() => { const held = early; early = null; held.forEach(take); });
