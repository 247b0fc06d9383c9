import { $, h, add, announce, sure } from './dom.js';
import { call } from './api.js';
import { listen } from './live.js';
import { section, every, tiles } from './section.js';
import * as f from './format.js';

const share = (n, of) => of > 0 ? f.percent(n / of) : f.NONE;

// The lists, and reloads.

function drawLists(s) {
  tiles($('feed-state'), [
    ['Generation', f.count(s.generation)], ['Users', f.count(s.users)], ['Items in lists', f.count(s.items)], ['Size', f.bytes(s.bytes)],
    ['Written', f.when(s.written), 'wide'], ['Checked', f.percent(s.checked)],
    ['At the end of their list', s.exhausted < 0 ? 'unknown' : `${f.count(s.exhausted)} (${share(s.exhausted, s.users)})`],
    ['Fallback items', f.count(s.fallback), s.fallback === 0], ['Not synced for', f.seconds(s.lagSeconds)],
  ]);
  const warning = s.damaged ? 'The snapshot is damaged: replace it by rename. The log says where.'
    : s.changed ? 'The file was written to, which nobody may do: write a new one and rename it over this one.' : '';
  $('feed-warning').textContent = warning;
  $('feed-warning').hidden = !warning;
  $('feed-durability').textContent = 'Positions: ' + s.durability + '.';
  $('feed-force-label').textContent = `Even with fewer than ${f.count(s.minimumUsers)} users`;
  const r = s.reload;
  $('feed-reload').disabled = Boolean(r);
  $('feed-under-way').hidden = !r;
  if (r) {
    if (r.total > 0) $('feed-progress').value = r.done / r.total; else $('feed-progress').removeAttribute('value');
    $('feed-stage').textContent = {
      opening: 'Opening the new file',
      checking: `Checking the lists of ${f.count(r.users)} users: ${f.bytes(r.done)} of ${f.bytes(r.total)}`,
      positions: `Preparing positions of ${f.count(r.users)} users`,
    }[r.stage];
  }
  const last = s.lastReload;
  $('feed-last').hidden = !last;
  if (last) {
    $('feed-last').className = last.refused ? 'wrong' : 'good';
    $('feed-last').textContent = last.refused ? `${f.when(last.at)}: ${last.refused}`
      : `${f.when(last.at)}: generation ${last.generation} was taken up in ${f.seconds(last.seconds)}.`;
  }
}

const lists = section($('feed-lists'), () => call('GET', '/admin/feeds'), drawLists);

$('feed-reload').addEventListener('click', async () => {
  $('feed-reload').disabled = true;
  setTimeout(lists, 100); // it has begun by then
  try {
    const now = await call('POST', '/admin/feeds/reload' + ($('feed-force').checked ? '?force=1' : ''));
    $('feed-force').checked = false;
    announce(`Generation ${now.generation} serves.`);
  } catch (problem) { announce(problem.message); }
  lists();
});

// A user.

let asked = null; // {id, size, from}

function wrong(text) {
  $('feed-wrong').textContent = text;
  $('feed-wrong').hidden = !text;
  $('feed-id').setAttribute('aria-invalid', String(Boolean(text)));
}

async function look() {
  const mine = asked;
  const query = new URLSearchParams({ size: asked.size, limit: 60, ...(asked.from === undefined ? {} : { from: asked.from }) });
  try {
    const u = await call('GET', `/admin/feeds/users/${encodeURIComponent(asked.id)}?${query}`);
    if (mine === asked) { wrong(''); drawUser(u); }
  } catch (problem) {
    if (mine !== asked) return;
    $('feed-seen').hidden = true;
    wrong(problem.message);
  }
}

async function act(method, path, body, said) {
  try {
    const found = await call(method, `/admin/feeds/users/${encodeURIComponent(asked.id)}${path}`, body);
    announce(said(found));
    asked = { ...asked, from: undefined };
    await look();
  } catch (problem) { wrong(problem.message); }
}

const next = (u) => `${u.next.length} of the list` + (u.fallback ? ` and ${u.fallback} fallback items, ${u.drawn === 'score' ? 'the best by score' : 'drawn at random'}` : '');

function drawUser(u) {
  const box = h('div', { class: 'feed-seen' });
  if (!u.known) {
    add(box, h('p', {}, 'There is no list for ', h('strong', {}, u.user), '. ',
      u.fallback ? `A request gets ${u.fallback} fallback items, ${u.drawn === 'score' ? 'the best by score' : 'drawn at random'}.` : 'A request gets nothing: there are no fallback items.'));
  } else {
    const facts = h('dl', { class: 'tiles' });
    tiles(facts, [['User', u.user], ['Position', `${f.count(u.position)} of ${f.count(u.length)}`, 'wide'], ['Left', f.count(u.remaining), u.remaining === 0],
      ['Next request', next(u), 'wide'], ['List', u.list, 'wide']]);
    const track = h('span');
    track.style.width = (u.length ? 100 * u.position / u.length : 100) + '%';
    const items = h('ol', { class: 'feed-items', start: u.from + 1 });
    const here = () => items.append(h('li', { class: 'here' }, 'position ' + u.position));
    u.items.forEach((item, i) => {
      const at = u.from + i;
      if (at === u.position) here();
      const state = at < u.position ? 'given' : at < u.position + u.next.length ? 'next' : '';
      items.append(h('li', { class: state || null }, h('small', {}, at), item, state && h('span', { class: 'unseen' }, ', ' + state)));
    });
    if (u.from + u.items.length === u.length && u.position === u.length) here();
    const turn = (label, from, off) => h('button', { type: 'button', disabled: off, onclick: () => { asked = { ...asked, from }; look(); } }, label);
    const set = h('input', { id: 'feed-set', type: 'number', min: 0, max: u.length, value: u.position });
    add(box, facts,
      h('div', { class: 'feed-track', role: 'img', 'aria-label': `${share(u.position, u.length)} of the list was given` }, track),
      u.length === 0 ? h('p', { class: 'muted' }, 'The list is empty.') : [
        h('p', { class: 'hint feed-legend' }, `Items ${f.count(u.from)} to ${f.count(u.from + Math.max(0, u.items.length - 1))}, counted from 0: dashed were given, filled are next.`),
        items,
        h('div', { class: 'actions' }, turn('Earlier', Math.max(0, u.from - 60), u.from === 0), turn('At the position', undefined, false),
          turn('Later', u.from + 60, u.from + u.items.length >= u.length)),
      ],
      h('form', { class: 'actions feed-form', onsubmit: (e) => { e.preventDefault(); act('PUT', '/position', { position: Number(set.value) }, (p) => `The position is ${p.position}.`); } },
        h('div', { class: 'field feed-size' }, h('label', { for: 'feed-set' }, 'Position'), set), h('button', { type: 'submit' }, 'Set'),
        sure('Reset to the beginning', 'Press again: items are given again', () => act('DELETE', '/position', undefined, () => 'The position is 0.'), { id: 'feed-reset' }),
        sure('Forget the user', 'Press again: the position is lost', () => act('DELETE', '', undefined, (p) => p.forgotten ? 'The user is forgotten.' : 'There was nothing to forget.'), { id: 'feed-forget', class: 'danger' })));
  }
  $('feed-seen').replaceChildren(box);
  $('feed-seen').hidden = false;
}

$('feed-form').addEventListener('submit', (e) => {
  e.preventDefault();
  asked = { id: $('feed-id').value.trim(), size: $('feed-size').value };
  location.hash = new URLSearchParams({ user: asked.id });
  look();
});

// How far users are.

function drawSurvey(s) {
  const box = $('feed-surveyed');
  if (s.last) {
    const { last } = s;
    const bars = [...last.buckets.map((n, i) => ({ n, name: `${5 * i} to ${5 * i + 5} % of the list` })), { n: last.exhausted, name: 'at the end', end: true }];
    const most = Math.max(1, ...bars.map((b) => b.n));
    const at = h('p', { class: 'feed-at muted' });
    const say = (b) => () => { at.textContent = b ? `${b.name}: ${f.count(b.n)} users, ${share(b.n, last.users)}` : ''; };
    const facts = h('dl', { class: 'tiles' });
    tiles(facts, [['Users', f.count(last.users)], ['Have had nothing', `${f.count(last.untouched)} (${share(last.untouched, last.users)})`],
      ['At the end', `${f.count(last.exhausted)} (${share(last.exhausted, last.users)})`], ['Counted', f.when(last.at), 'wide'], ['Took', f.seconds(last.seconds)], ['Generation', f.count(last.generation)]]);
    box.replaceChildren(facts, h('ol', { class: 'feed-bars', 'aria-label': 'Users by how much of their list they have had' }, bars.map((b) => {
      const bar = h('span');
      bar.style.height = 100 * b.n / most + '%';
      return h('li', { class: b.end ? 'end' : null, onpointerenter: say(b), onpointerleave: say(null) }, bar, h('span', { class: 'unseen' }, `${b.name}: ${f.count(b.n)} users`));
    })), h('div', { class: 'feed-scale', 'aria-hidden': 'true' }, h('span', {}, 'beginning'), h('span', {}, 'half'), h('span', {}, 'end')), at);
  } else {
    box.replaceChildren(h('p', { class: 'muted' }, 'Nobody has counted yet. Counting goes through all positions in the background; requests hardly notice.'));
  }
  if (s.failed) box.append(h('p', { class: 'wrong' }, s.failed));
  const r = s.running;
  $('feed-count').disabled = Boolean(r);
  $('feed-count').textContent = s.last ? 'Count anew' : 'Count';
  $('feed-counting').hidden = !r;
  if (r) {
    $('feed-counted').value = r.total ? r.done / r.total : 0;
    $('feed-counted-text').textContent = `${f.count(r.done)} of ${f.count(r.total)} users`;
    setTimeout(survey, 300);
  }
}

const survey = section($('feed-survey'), () => call('GET', '/admin/feeds/survey'), drawSurvey);
$('feed-count').addEventListener('click', async () => {
  try { drawSurvey(await call('POST', '/admin/feeds/survey')); } catch (problem) { announce(problem.message); survey(); }
});

every(2000, lists);
listen('snapshot', lists);
survey();
const user = new URLSearchParams(location.hash.slice(1)).get('user');
if (user) {
  $('feed-id').value = user;
  $('feed-form').requestSubmit();
}
