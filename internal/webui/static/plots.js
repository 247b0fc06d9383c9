// Plots by uPlot, with a legend and a cursor of our own that work with keys as well. Lines differ by dashes and not by colour alone.

import { h } from './dom.js';
import * as f from './format.js';

/* global uPlot */


// smooth averages neighbours, the more the more points there are to show: a line says the trend, and zooming in shows each point. Gaps
// stay gaps.
function smooth(line, shown) {
  const reach = Math.floor(shown / 300);
  if (reach === 0) return line;
  return line.map((v, i) => {
    if (v == null) return v;
    let sum = 0, n = 0;
    for (let j = Math.max(0, i - reach); j <= Math.min(line.length - 1, i + reach); j++) if (line[j] != null) { sum += line[j]; n++; }
    return sum / n;
  });
}

// color is what a variable of the style sheet stands for in the theme that shows.
const probe = h('span', { hidden: true });
function color(name) {
  if (!probe.isConnected) document.body.append(probe);
  probe.style.color = `var(--${name})`;
  return getComputedStyle(probe).color;
}

const all = new Set();

// repaint draws all plots in the colours of now.
export function repaint() { for (const p of all) p.rebuild(); }
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', repaint);

// A spec says what a plot shows: id, title, value (a value as text), axis (one on the axis), series, and perhaps log, least (the least
// top of the axis), empty (what is said where there is nothing), phases, time (a moment as text; default: since the beginning), all
// (the name of the whole span), group (plots that zoom and point together), still (t is no time) and ended (the last point is not
// now). Points have a time t in seconds. A series has a name, a colour by its variable in the style sheet, dashes, and what it takes
// from a point; optional is left out where there is nothing, exact never smoothed.
export class Plot {
  constructor(host, spec) {
    this.spec = spec;
    this.ended = Boolean(spec.ended); // else the last point is now
    this.time = spec.time ?? f.clock;
    this.group = spec.group ?? 'weir';
    this.points = [];
    this.hidden = new Set();
    this.from = 0;
    this.title = h('h3', { id: 'plot-' + spec.id }, spec.title);
    this.canvas = h('div', {
      class: 'plot-canvas', tabindex: '0', role: 'group', 'aria-labelledby': 'plot-' + spec.id, 'aria-describedby': 'plot-' + spec.id + '-at',
      'aria-roledescription': 'plot', onkeydown: (e) => this.key(e), onblur: () => this.point(null),
    });
    this.at = h('p', { class: 'plot-at muted', id: 'plot-' + spec.id + '-at' }, '');
    this.note = h('p', { class: 'plot-empty muted', hidden: true }, spec.empty ?? '');
    this.legend = h('div', { class: 'legend', role: 'group', 'aria-label': 'Lines of ' + spec.title });
    this.values = spec.series.map((s, i) => {
      const value = h('output', { class: 'legend-value' }, f.NONE);
      const b = h('button', { type: 'button', class: 'legend-item', 'aria-pressed': 'true', onclick: () => this.toggle(i) },
        swatch(s), h('span', {}, s.name), value);
      this.legend.append(b);
      return { button: b, value };
    });
    this.back = h('button', { type: 'button', class: 'plot-back', hidden: true, onclick: () => { for (const p of this.others()) p.zoom(null); } }, spec.all ?? 'Whole run');
    this.element = h('section', { class: 'panel plot', 'data-plot': spec.id }, h('div', { class: 'plot-head' }, this.title, this.at, this.back), this.canvas, this.note, this.legend);
    host.append(this.element);
    this.sizes = new ResizeObserver(() => this.resize());
    this.sizes.observe(this.canvas);
    all.add(this);
    this.rebuild();
  }

  rebuild() {
    this.u?.destroy();
    const grid = { stroke: color('grid'), width: 1 };
    const ticks = { stroke: color('grid'), width: 1, size: 4 };
    const axis = { stroke: color('muted'), font: '12px system-ui, sans-serif', grid, ticks };
    const two = this.spec.series.find((s) => s.scale === 'y2');
    const options = {
      width: this.width(), height: this.height(), legend: { show: false }, pxAlign: 0,
      padding: [this.spec.phases ? 20 : 10, two ? 4 : 20, 0, 0],
      cursor: { sync: { key: this.group }, drag: { x: true, y: false, setScale: false }, y: false, points: { size: 6 } },
      scales: {
        x: { time: false, range: (u, lo, hi) => this.span ?? [lo ?? 0, hi ?? 1] },
        y: this.spec.log
          ? { distr: 3, range: (u, lo, hi) => this.logRange(lo, hi) }
          : { range: (u, lo, hi) => [0, Math.max(hi ?? 0, this.spec.least ?? 1) * 1.08] },
        y2: { range: (u, lo, hi) => two?.range ?? [0, Math.max(hi ?? 0, 1) * 1.08] },
      },
      axes: [
        { ...axis, values: (u, ts) => ts.map((t) => this.time(t)), ...(this.spec.incrs ? { incrs: this.spec.incrs } : {}), space: 70, size: 30 },
        { ...axis, values: (u, vs) => vs.map((v) => v == null ? '' : this.spec.axis(v)), size: 62, space: this.spec.log ? 16 : 34 },
        ...(two ? [{ ...axis, scale: 'y2', side: 1, grid: { show: false }, values: (u, vs) => vs.map((v) => two.value(v)), size: 66, space: 32, ...(two.steps ? { incrs: two.steps } : {}) }] : []),
      ],
      series: [{}, ...this.spec.series.map((s, i) => ({
        label: s.name, scale: s.scale ?? 'y', stroke: color(s.color), width: s.width ?? 1.5, dash: s.dash, points: { show: false },
        show: !this.hidden.has(i), spanGaps: Boolean(this.spec.span),
      }))],
      hooks: { setSelect: [(u) => this.select(u)], setCursor: [(u) => this.show(u.cursor.idx)], drawClear: [(u) => this.phases(u)] },
    };
    this.u = new uPlot(options, this.data(), this.canvas);
  }

  width() { return Math.max(200, Math.floor(this.canvas.clientWidth) || 600); }
  height() { return this.width() < 420 ? 190 : 230; }

  resize() {
    if (this.u && this.canvas.clientWidth > 0 && this.u.width !== this.width()) this.u.setSize({ width: this.width(), height: this.height() });
  }

  logRange(lo, hi) {
    if (lo == null || hi == null || lo <= 0) return [100, 100000];
    return [10 ** Math.floor(Math.log10(lo)), 10 ** Math.ceil(Math.log10(hi * 1.05))];
  }

  // select zooms all plots to what was dragged over.
  select(u) {
    if (u.select.width < 5) return;
    const span = [u.posToVal(u.select.left, 'x'), u.posToVal(u.select.left + u.select.width, 'x')];
    u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    for (const p of this.others()) p.zoom(span);
  }

  // others are the plots that move together, this one included.
  others() { return [...all].filter((p) => p.group === this.group); }

  // zoom shows a span of time, null the whole run.
  zoom(span) {
    this.span = span;
    this.back.hidden = !span;
    this.u.setData(this.data());
  }

  data() {
    const points = this.from > 0 ? this.points.filter((p) => p.t >= this.from) : this.points;
    this.shown = points;
    const positive = this.spec.log ? (v) => v > 0 ? v : null : (v) => v ?? null;
    const line = (s) => points.map((p) => positive(s.get(p)));
    return [points.map((p) => p.t), ...this.spec.series.map((s) => s.exact ? line(s) : smooth(line(s), this.span ? points.filter((p) => p.t >= this.span[0] && p.t <= this.span[1]).length : points.length))];
  }

  // draw shows points, from a moment on.
  draw(points, from = 0) {
    this.points = points;
    this.from = from;
    const data = this.data();
    this.u.setData(data);
    const nothing = points.length > 0 && data.slice(1).every((line) => line.every((v) => v == null));
    this.note.hidden = !(nothing && this.spec.empty);
    this.canvas.classList.toggle('without', !this.note.hidden);
    this.legend.hidden = !this.note.hidden;
    this.spec.series.forEach((s, i) => {
      if (s.optional) this.values[i].button.hidden = data[i + 1].every((v) => v == null);
    });
    if (this.u.cursor.idx == null) this.show(null);
  }

  // show writes the values of a point into the legend: those under the cursor, else the last.
  show(index) {
    const p = index == null && this.spec.still ? undefined : this.shown[index ?? this.shown.length - 1];
    this.at.textContent = !p ? '' : index == null ? (this.ended ? 'end, ' : 'now, ') + this.time(p.t) : 'at ' + this.time(p.t) + (p.phase ? ', ' + p.phase : '');
    this.spec.series.forEach((s, i) => {
      this.values[i].value.textContent = p ? (s.value ?? this.spec.value)(s.get(p)) : f.NONE;
    });
  }

  // point moves the cursor to a point, and in the other plots too; null takes it away.
  point(index) {
    this.index = index;
    if (index == null) { this.u.setCursor({ left: -10, top: -10 }, true, true); return; }
    this.u.setCursor({ left: this.u.valToPos(this.shown[index].t, 'x'), top: 10 }, true, true);
  }

  key(e) {
    const last = this.shown.length - 1;
    if (last < 0) return;
    const i = this.index ?? last;
    if (e.key === '+' || e.key === '-') { this.zoomAt(e.key === '+' ? 0.5 : 2, this.shown[i].t); e.preventDefault(); return; }
    const far = Math.max(1, Math.round(last / 20));
    const to = { ArrowLeft: i - 1, ArrowRight: i + 1, PageDown: i - far, PageUp: i + far, Home: 0, End: last }[e.key];
    if (e.key === 'Escape') { this.point(null); return; }
    if (to === undefined) return;
    e.preventDefault();
    this.point(Math.min(last, Math.max(0, to)));
  }

  // zoomAt narrows or widens the span about a moment.
  zoomAt(factor, t) {
    const begin = this.spec.time ? this.points[0].t : 0;
    const end = this.points[this.points.length - 1].t;
    const [lo, hi] = this.span ?? [begin, end];
    const width = (hi - lo) * factor;
    const from = Math.min(Math.max(begin, t - width / 2), end - width);
    for (const p of this.others()) p.zoom(width >= end - begin ? null : [from, from + width]);
  }

  toggle(i) {
    const on = this.hidden.has(i);
    if (on) this.hidden.delete(i); else this.hidden.add(i);
    this.values[i].button.setAttribute('aria-pressed', String(on));
    this.u.setSeries(i + 1, { show: on });
  }

  // phases draws where one ends and the next begins, and shades what does not count.
  phases(u) {
    const points = this.shown ?? [];
    if (points.length === 0 || points[0].phase === undefined) return;
    const c = u.ctx;
    const { left, top, width, height } = u.bbox;
    const dpr = devicePixelRatio || 1;
    c.save();
    c.beginPath();
    c.rect(left, 0, width, top + height);
    c.clip();
    c.font = `${11 * dpr}px system-ui, sans-serif`;
    c.textBaseline = 'alphabetic';
    c.textAlign = 'left'; // axes leave theirs
    let begin = 0;
    let free = -Infinity; // where a label fits
    for (let i = 0; i < points.length; i++) {
      const next = points[i + 1];
      if (next && next.phase === points[i].phase && next.measured === points[i].measured) continue;
      const x0 = u.valToPos(begin, 'x', true);
      const x1 = u.valToPos(points[i].t, 'x', true);
      if (!points[i].measured) {
        c.fillStyle = color('unmeasured');
        c.fillRect(x0, top, x1 - x0, height);
      }
      if (begin > 0) {
        c.fillStyle = color('edge');
        c.fillRect(Math.round(x0), top, 1, height);
      }
      if (this.spec.phases) {
        const text = points[i].phase;
        if (Math.max(x0, left) > free && x1 - Math.max(x0, left) > 10 * dpr) {
          c.fillStyle = color('muted');
          const x = Math.max(x0, left) + 3 * dpr;
          c.fillText(text, x, top - 6 * dpr);
          free = x + c.measureText(text).width + 6 * dpr;
        }
      }
      begin = points[i].t;
    }
    c.restore();
  }

  close() {
    this.sizes.disconnect();
    this.u?.destroy();
    all.delete(this);
    this.element.remove();
  }
}

// swatch shows a line as it is drawn.
function swatch(s) {
  const ns = 'http://www.w3.org/2000/svg';
  const svg = document.createElementNS(ns, 'svg');
  svg.setAttribute('viewBox', '0 0 26 8');
  svg.setAttribute('class', 'swatch');
  svg.setAttribute('aria-hidden', 'true');
  const line = document.createElementNS(ns, 'line');
  for (const [k, v] of Object.entries({ x1: 0, x2: 26, y1: 4, y2: 4, 'stroke-width': (s.width ?? 1.5) + 0.5, 'stroke-dasharray': (s.dash ?? []).join(' ') })) line.setAttribute(k, v);
  line.style.stroke = `var(--${s.color})`;
  svg.append(line);
  return svg;
}
