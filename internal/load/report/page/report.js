"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const plots = [];

  const three = v => v >= 99.95 ? v.toFixed(0) : v >= 9.995 ? String(+v.toFixed(1)) : String(+v.toFixed(2));
  const rate = v => v == null ? "-" : (v >= 99.5 ? Math.round(v).toLocaleString("en-US") : three(v)) + "/s";
  const micros = v => v == null ? "-" : v < 999.5 ? three(v) + " µs" : v < 999500 ? three(v / 1e3) + " ms" : three(v / 1e6) + " s";
  const seconds = v => v == null ? "-" : +v.toFixed(1) + " s";
  const share = v => v == null ? "-" : three(v * 100) + " %";
  const plain = v => v == null ? "-" : three(v);
  const bytes = v => {
    if (v == null) return "-";
    const units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let i = 0;
    for (; v >= 1023.5 && i < units.length - 1; i++) v /= 1024;
    return three(v) + " " + units[i];
  };
  // A percentile from its place on the axis, 1/(1-q).
  const percentile = x => x <= 1 ? "0 %" : +(100 - 100 / x).toPrecision(Math.max(2, Math.floor(Math.log10(x)) + 1)) + " %";

  const color = name => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();

  const line = (label, name, value, more) => Object.assign({ label, stroke: () => color(name), width: 1.5, value: (u, v) => value(v), points: { show: false } }, more);
  const axis = (values, more) => Object.assign({ stroke: () => color("soft"), grid: { stroke: () => color("grid"), width: 1 }, ticks: { stroke: () => color("grid"), width: 1 },
    values: (u, ticks) => ticks.map(v => v == null ? "" : values(v)), font: "12px system-ui, sans-serif" }, more);

  // Grey is what does not count.
  const shade = u => {
    const ctx = u.ctx;
    ctx.save();
    ctx.fillStyle = color("line");
    ctx.globalAlpha = 0.45;
    for (const [from, to] of data.unmeasured) {
      const a = Math.max(u.valToPos(from, "x", true), u.bbox.left);
      const b = Math.min(u.valToPos(to, "x", true), u.bbox.left + u.bbox.width);
      if (b > a) ctx.fillRect(a, u.bbox.top, b - a, u.bbox.height);
    }
    ctx.restore();
  };

  function plot(id, columns, series, y, more) {
    const box = document.getElementById(id);
    if (!box || typeof uPlot === "undefined") return;
    const options = Object.assign({
      width: box.clientWidth - 8, height: Math.min(340, Math.max(240, window.innerHeight * 0.45)),
      scales: { x: { time: false } },
      axes: [axis(seconds, { space: 60 }), axis(y, { size: 72 })],
      series: [{ label: "time", value: (u, v) => seconds(v) }, ...series],
      cursor: { sync: more && more.scales && more.scales.x ? undefined : { key: "time" }, drag: { x: true, y: false } },
      hooks: { drawClear: [shade] },
    }, more);
    const u = new uPlot(options, columns, box);
    u.root.querySelector("canvas").setAttribute("role", "img");
    u.root.querySelector("canvas").setAttribute("aria-label", box.getAttribute("aria-label"));
    plots.push([u, box]);
  }

  const t = data.trace;
  // Levels of a log axis must be above zero; and one decade at least is shown.
  const log = { distr: 3, range: (u, low, high) => low == null ? [1, 10] : [10 ** Math.floor(Math.log10(low)), 10 ** Math.max(Math.ceil(Math.log10(high)), Math.floor(Math.log10(low)) + 1)] };
  // Only whole decades have a label: the others run into each other.
  const decades = values => v => Math.abs(Math.log10(v) - Math.round(Math.log10(v))) < 1e-9 ? values(v) : "";
  const some = column => column.some(v => v != null && v !== 0);

  const rates = [["intended", "intended", { dash: [6, 4] }], ["achieved", "achieved"], ["served", "served", { width: 2 }], ["shed", "shed"], ["errors", "errors"]]
    .map(([label, name, more]) => [t[name], line(label, name, rate, more)]);
  if (some(t.ceiling)) rates.push([t.ceiling, line("ceiling", "ceiling", rate, { dash: [10, 4], width: 2 })]);
  plot("rate", [t.t, ...rates.map(r => r[0])], rates.map(r => r[1]), rate, { scales: { x: { time: false }, y: { range: (u, low, high) => [0, (high || 1) * 1.05] } } , cursor: { sync: { key: "time" } } });

  plot("latency", [t.t, t.p50, t.p90, t.p99, t.max],
    [line("p50", "p50", micros), line("p90", "p90", micros), line("p99", "p99", micros, { width: 2 }), line("max", "max", micros, { width: 1 })],
    decades(micros), { scales: { x: { time: false }, y: log }, cursor: { sync: { key: "time" } } });

  if (data.percentiles.x.length > 1) {
    plot("percentiles", [data.percentiles.x, data.percentiles.y], [line("latency", "p99", micros, { width: 2 })], micros, {
      scales: { x: { time: false, distr: 3, range: (u, low, high) => [low || 1, high > low ? high : 10] }, y: { range: (u, low, high) => [0, (high || 1) * 1.05] } },
      axes: [axis(null, { space: 40, values: (u, ticks) => ticks.map(v => {
        const step = u.width < 500 ? 2 : 1; // a phone has room for every other decade
        return Math.round(Math.log10(v)) % step ? "" : decades(percentile)(v);
      }) }), axis(micros, { size: 72 })],
      series: [{ label: "percentile", value: (u, v) => v == null ? "-" : percentile(v) }, line("latency", "p99", micros, { width: 2 })],
      cursor: { drag: { x: true, y: false } },
      hooks: {},
    });
  }

  // Each scale of the last two has an axis of its own.
  const zero = { range: (u, low, high) => [0, (high || 1) * 1.05] };
  const right = values => axis(values, { scale: "right", side: 1, size: 72, grid: { show: false } });
  const time = { cursor: { sync: { key: "time" } } };
  plot("use", [t.t, t.busy, t.in_flight, t.connections],
    [line("busiest thread", "served", share), line("in flight (right)", "p50", plain, { scale: "right" }), line("connections (right)", "intended", plain, { scale: "right", dash: [6, 4] })],
    share, { scales: { x: { time: false }, y: { range: [0, 1.05] }, right: zero }, axes: [axis(seconds, { space: 60 }), axis(share, { size: 72 }), right(plain)], ...time });
  plot("target", [t.t, t.target_cpu, t.target_memory],
    [line("processors", "shed", plain), line("memory (right)", "ceiling", bytes, { scale: "right" })],
    plain, { scales: { x: { time: false }, y: zero, right: zero }, axes: [axis(seconds, { space: 60 }), axis(plain, { size: 72 }), right(bytes)], ...time });

  const resize = () => { for (const [u, box] of plots) u.setSize({ width: box.clientWidth - 8, height: u.height }); };
  new ResizeObserver(resize).observe(document.body);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { for (const [u] of plots) u.redraw(false, true); });
  document.documentElement.dataset.plots = plots.length;
})();
