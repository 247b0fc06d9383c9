// The run that goes on: figures, plots, its rate, its end.

import { $, h, announce } from './dom.js';
import { call } from './api.js';
import { Plot } from './plots.js';
import { RUN_PLOTS } from './runplots.js';
import * as f from './format.js';

const MOST_POINTS = 5000; // then the server is asked for its merged ones
// Drawing takes the processor that the load wants: many points are drawn less often.
const redraw = (points) => points.length > 1500 ? 500 : 200; // ms

const STATES = { idle: 'Ready', starting: 'Checking the plan', running: 'Running', stopping: 'Stopping', over: 'Over' };

const TILES = [
  ['Intended', (p) => f.rate(p.intended)], ['Achieved', (p) => f.rate(p.achieved)], ['Served', (p) => f.rate(p.served)],
  ['p50', (p) => f.micros(p.p50)], ['p99', (p) => f.micros(p.p99)],
  ['Errors', (p) => f.percent(share(p, p.errors)), (p) => p.errors > 0],
  ['Shed', (p) => f.percent(share(p, p.shed)), (p) => p.shed > 0],
  ['Ceiling', (p) => f.rate(p.ceiling), null, (p) => p.ceiling != null],
  ['Target CPU', (p) => f.cpus(p.target_cpu), null, (p) => p.target_cpu != null],
  ['Target memory', (p) => f.bytes(p.target_memory), null, (p) => p.target_memory != null],
  ['Generator busy', (p) => f.percent(p.busy), (p) => p.busy > 0.9],
  ['Generator late', (p) => f.micros(p.lag_p99), (p) => p.lag_p99 > 1000 && p.lag_p99 > 0.2 * p.p99, (p) => p.lag_p99 != null],
];

// The figures that are shown as they have been so far, too.
const SO_FAR = new Set(['Intended', 'Achieved', 'Served', 'p50', 'p99', 'Errors', 'Shed']);

// whole makes a point of the figures of a whole run.
function whole(end) {
  const rate = (n) => end.seconds > 0 ? n / end.seconds : 0;
  return {
    phase: '', measured: true, intended: end.rate.intended, achieved: end.rate.achieved, served: end.rate.served, shed: rate(end.shed), errors: rate(end.errors),
    p50: end.latency_us.p50 || null, p99: end.latency_us.p99 || null, ceiling: end.ceiling?.rate ?? null,
  };
}

function share(p, part) {
  const sum = p.served + p.shed + p.errors;
  return sum > 0 ? part / sum : 0;
}

export class Live {
  constructor({ refresh }) {
    this.refresh = refresh;
    this.run = { state: 'idle' };
    this.points = [];
    this.plots = [];
    this.most = MOST_POINTS;
    this.timer = 0;
    this.tiles = TILES.map(([name, , , there]) => {
      const value = h('dd', {}, f.NONE);
      const tile = h('div', { class: 'tile', hidden: Boolean(there) }, h('dt', {}, name), value);
      $('tiles').append(tile);
      return { tile, value };
    });
    $('stop').addEventListener('click', () => this.stop());
    $('rate-form').addEventListener('submit', (e) => { e.preventDefault(); this.wish(Number($('rate-now').value)); });
    $('rate-slide').addEventListener('input', () => {
      $('rate-now').value = this.fromSlide($('rate-slide').valueAsNumber);
      this.say();
      clearTimeout(this.sliding);
      this.sliding = setTimeout(() => this.wish(Number($('rate-now').value)), 150);
    });
    $('rate-now').addEventListener('input', () => { this.typed = true; });
    $('rate-less').addEventListener('click', () => this.wish(this.round(this.base() * 0.9)));
    $('rate-more').addEventListener('click', () => this.wish(this.round(this.base() * 1.1)));
  }

  get closed() { return Boolean(this.run.plan?.connections); }
  get busy() { return ['starting', 'running', 'stopping'].includes(this.run.state); }

  // Events.

  snapshot({ run, points }) {
    this.status(run, true);
    this.points = points;
    this.most = Math.max(MOST_POINTS, 2 * points.length);
    this.drawSoon(0);
  }

  status(run, quiet = false) {
    const before = this.run;
    const fresh = run.id !== before.id;
    this.run = run;
    if (fresh && run.id) {
      this.points = [];
      this.top = 0;
      this.typed = false;
      $('rate-error').hidden = true;
      for (const p of this.plots) p.close();
      this.plots = [];
      this.drawSoon(0);
    }
    const text = STATES[run.state] ?? run.state;
    $('state').dataset.state = run.error ? 'failed' : run.state;
    $('state-text').textContent = run.error ? 'Failed' : text;
    $('stop').hidden = !this.busy;
    $('stop').disabled = run.state === 'stopping';
    $('stop').textContent = run.state === 'stopping' ? 'Stopping\u2026' : 'Stop';
    $('rate-form').hidden = run.state !== 'running';
    $('tiles').hidden = !run.id;
    if (run.id) {
      $('run-title').textContent = run.plan?.name || (run.state === 'over' ? 'Run over' : 'Run');
      $('run-what').textContent = [run.what, run.plan?.mode].filter(Boolean).join(' \u00b7 ');
    }
    $('rate-label').textContent = this.closed ? 'Connections' : 'Rate, requests a second';
    this.ended(run);
    if (!quiet && run.state !== before.state && run.state !== 'idle' && !(run.state === 'over' && before.state === 'starting')) {
      announce(run.state === 'over' ? 'The run is over. ' + (run.error ?? run.reason ?? '') : text);
    } else if (!quiet && run.rate !== before.rate && run.rate) {
      announce('The load is now ' + (this.closed ? f.count(run.rate) + ' connections' : f.rate(run.rate)));
    }
    if (fresh && !run.rate) { $('rate-now').value = ''; $('rate-now').placeholder = 'not set by hand'; }
    if (run.rate && (fresh || run.rate !== before.rate) && !this.typed) this.showRate(run.rate);
    if (!quiet) this.whole(run, before);
  }

  // whole asks for all points of a run that is over: some may have been missed.
  whole(run, before) {
    if (run.state === 'over' && before.id === run.id && before.state !== 'over') this.refresh();
  }

  point(p) {
    const last = this.points[this.points.length - 1];
    if (last && p.t <= last.t) return; // the snapshot had it
    this.points.push(p);
    if (this.points.length > this.most) { this.most *= 2; this.refresh(); return; }
    this.drawSoon(redraw(this.points));
  }

  // Drawing.

  drawSoon(ms) {
    if (this.timer) return;
    this.timer = setTimeout(() => requestAnimationFrame(() => { this.timer = 0; this.draw(); }), ms);
  }

  draw() {
    if ($('page-run').hidden) return; // drawn when it is seen again
    if (!this.run.id) return;
    if (this.plots.length === 0) {
      this.plots = RUN_PLOTS.map((spec) => new Plot($('live-plots'), spec));
    }
    for (const p of this.plots) {
      p.ended = this.run.state === 'over';
      p.draw(this.points);
    }
    const p = this.run.end ? whole(this.run.end) : this.points[this.points.length - 1];
    if (!p) {
      this.tiles.forEach((t) => { t.value.textContent = f.NONE; });
      return;
    }
    TILES.forEach(([, text, warn, there], i) => {
      const { tile, value } = this.tiles[i];
      value.textContent = text(p);
      if (there) tile.hidden = !there(p);
      tile.classList.toggle('warn', Boolean(warn?.(p)));
    });
    if (this.run.state === 'over') return;
    this.cumulative();
    const phase = p.phase + (p.measured ? '' : ', not counted') + (p.silent ? ', the target does not answer' : '');
    if (this.run.state === 'running') $('state').dataset.state = p.silent ? 'failed' : 'running';
    if (this.run.state === 'running') {
      $('state-text').textContent = 'Running: ' + phase + ', ' + f.clock(p.t) + (this.run.seconds > 0 ? ' of ' + f.clock(this.run.seconds) : '');
      if (this.phase !== undefined && this.phase !== phase) announce('Phase: ' + phase);
      this.phase = phase;
    }
  }

  // cumulative writes what has been so far beside what is now.
  cumulative() {
    const counted = this.points.filter((p) => p.measured);
    const seconds = counted.reduce((sum, p) => sum + p.seconds, 0);
    if (seconds === 0) return;
    const mean = { p50: this.run.latency_us?.p50, p99: this.run.latency_us?.p99 };
    for (const k of ['intended', 'achieved', 'served', 'shed', 'errors']) mean[k] = counted.reduce((sum, p) => sum + p[k] * p.seconds, 0) / seconds;
    TILES.forEach(([name, text], i) => {
      if (!SO_FAR.has(name)) return;
      this.tiles[i].value.append(h('small', { class: 'muted so-far' }, 'so far ' + text(mean)));
    });
  }

  ended(run) {
    const end = $('run-end');
    end.replaceChildren();
    if (run.state !== 'over') return;
    if (run.error) end.append(h('p', { class: 'wrong' }, run.error));
    if (run.reason) end.append(h('p', {}, 'Ended: ' + run.reason));
    if (run.end) {
      end.append(h('p', { id: 'end-figures' }, `${f.count(run.end.requests)} requests in ${f.seconds(run.end.seconds)}: the figures below are those of the whole run.`));
      const verdicts = run.end.verdicts ?? [];
      if (verdicts.length > 0) {
        end.append(h('ul', { class: 'verdicts', id: 'end-verdicts' }, verdicts.map((v) =>
          h('li', { class: v.failed ? 'failed' : 'held' }, h('b', {}, v.failed ? '\u2717 Failed' : '\u2713 Passed'), ' fails when ', h('code', {}, v.condition), v.got && ': it was ' + v.got))));
      }
      const notes = [...(run.end.marks ?? []), ...(run.end.samples ?? []).slice(0, 5).map((s) => `For example ${s.request}: ${s.kind.replaceAll('_', ' ')}${s.detail ? ', ' + s.detail : ''}`)];
      if (notes.length > 0) end.append(h('ul', { class: 'muted', id: 'end-notes' }, notes.map((m) => h('li', {}, m))));
    }
    if (run.result) {
      end.append(h('p', { class: 'actions' },
        h('a', { class: 'button primary', id: 'to-result', href: '#/history/' + run.result }, 'Result'),
        h('a', { class: 'button', href: '/api/history/' + run.result + '.json', download: true }, 'JSON')));
    }
  }

  // The rate.

  round(v) { return this.closed ? Math.max(1, Math.round(v)) : Number(v.toPrecision(3)); }
  rate() { return Number($('rate-now').value) || 0; }
  // base is what the buttons change: what is set, or else what the load is.
  base() {
    const p = this.points[this.points.length - 1];
    return this.rate() || (this.closed ? p?.connections : p?.intended) || 1;
  }

  // The slider's scale is logarithmic: from 1 to a power of ten well above.
  fromSlide(at) { return this.round(10 ** (at / 1000 * Math.log10(this.slideTop()))); }
  slideTop() { return this.top || 1000; }

  showRate(v) {
    if (document.activeElement !== $('rate-now')) $('rate-now').value = v;
    this.top = Math.max(this.top || 0, 10 ** Math.ceil(Math.log10(Math.max(v, 10) * 3)));
    $('rate-slide').value = String(Math.round(Math.log10(Math.max(v, 1)) / Math.log10(this.top) * 1000));
    this.say();
  }

  say() {
    $('rate-slide').setAttribute('aria-valuetext', this.closed ? $('rate-now').value + ' connections' : f.rate(this.rate()));
  }

  async wish(v) {
    $('rate-error').hidden = true;
    try {
      await call('PUT', '/api/run/rate', { rate: v });
      this.typed = false;
      $('rate-now').value = v;
      this.showRate(v);
    } catch (problem) {
      $('rate-error').textContent = problem.message;
      $('rate-error').hidden = false;
    }
  }

  async stop() {
    try {
      await call('DELETE', '/api/run');
    } catch (problem) {
      announce(problem.message);
    }
    $('run-title').focus();
  }
}
