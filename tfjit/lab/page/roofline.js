"use strict";
/* The roofline: what each kernel reaches, below what the machine allows. A kernel stands at its
   operations for each byte, and at its rate, measured where it was measured, else predicted. */

const MOST_POINTS = 1500;

function svgPart(name, attributes, parent) {
  const part = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) part.setAttribute(key, value);
  if (parent) parent.append(part);
  return part;
}

function rooflineSvg(kernels, limits, threads, colourOf, pick) {
  const width = 368, height = 300, left = 40, right = 18, bottom = 30;
  const points = kernels.filter((one) => one.flops && one.bytes && one.time)
    .sort((a, b) => b.time - a.time).slice(0, MOST_POINTS)
    .map((one) => ({ one, x: one.flops / one.bytes, y: one.flops / one.time / 1e3 }));
  const peak = limits.fma * threads;
  // threads have caches of their own and share the memory
  const roofs = limits.copy.map(([size, rate], k) => [size, k < limits.copy.length - 1 ? rate * threads : rate]);
  const xs = [...points.map((p) => p.x), ...roofs.map(([, rate]) => peak / rate), 0.1];
  const ys = [...points.map((p) => p.y), peak * 1.5];
  const low = (list) => Math.floor(Math.log10(Math.min(...list)));
  const high = (list) => Math.ceil(Math.log10(Math.max(...list)));
  const [x0, x1, y1] = [low(xs), Math.max(high(xs), low(xs) + 2), high(ys)];
  const y0 = Math.min(Math.max(low(ys), y1 - 6), y1 - 2);
  const px = (x) => left + ((Math.log10(x) - x0) / (x1 - x0)) * (width - left - right);
  const py = (y) => height - bottom - ((Math.max(Math.log10(y), y0) - y0) / (y1 - y0)) * (height - bottom - 8);
  const svg = svgPart("svg", { viewBox: `0 0 ${width} ${height}`, width: "100%", role: "img" });
  for (let e = x0; e <= x1; e++) {
    svgPart("line", { class: "grid", x1: px(10 ** e), x2: px(10 ** e), y1: 8, y2: height - bottom }, svg);
    svgPart("text", { x: px(10 ** e), y: height - bottom + 13, "text-anchor": "middle" }, svg).textContent = power(e);
  }
  for (let e = y0; e <= y1; e++) {
    svgPart("line", { class: "grid", x1: left, x2: width - right, y1: py(10 ** e), y2: py(10 ** e) }, svg);
    svgPart("text", { x: left - 5, y: py(10 ** e) + 3, "text-anchor": "end" }, svg).textContent = power(e);
  }
  svgPart("text", { x: width - right, y: height - 3, "text-anchor": "end" }, svg).textContent = "operations per byte";
  svgPart("text", { x: left + 5, y: 17 }, svg).textContent = "GF/s";
  roofs.forEach(([, rate], k) => {
    const knee = peak / rate;
    const start = Math.max(10 ** x0, 10 ** y0 / rate);
    svgPart("path", {
      class: "roof", "stroke-dasharray": k ? "4 3" : "none",
      d: `M${px(start)} ${py(start * rate)}L${px(knee)} ${py(peak)}L${px(10 ** x1)} ${py(peak)}`,
    }, svg);
  });
  for (const { one, x, y } of points.reverse()) {
    const point = svgPart("circle", {
      class: "point", cx: px(x), cy: py(y), r: 3 + 4 * Math.sqrt(one.share),
      fill: colourOf(one), "fill-opacity": one.took ? 0.75 : 0.15, stroke: colourOf(one),
    }, svg);
    svgPart("title", {}, point).textContent =
      `${one.name}\n${y.toPrecision(3)} GF/s at ${x.toPrecision(3)} operations per byte, ${micro(one.time)}`;
    point.addEventListener("click", () => pick(one.id));
  }
  return svg;
}

function power(exponent) {
  return exponent >= 0 && exponent < 4 ? String(10 ** exponent) : exponent > -3 && exponent < 0
    ? String(10 ** exponent) : `1e${exponent}`;
}

/* A time in microseconds as text. */
function micro(us) {
  if (us >= 1e6) return `${(us / 1e6).toFixed(2)} s`;
  if (us >= 1e3) return `${(us / 1e3).toFixed(2)} ms`;
  return `${us >= 100 ? us.toFixed(0) : us >= 10 ? us.toFixed(1) : us.toFixed(2)} µs`;
}

/* A number with a prefix: 1.2 k, 3.4 M. */
function short(number, unit) {
  const steps = [[1e9, "G"], [1e6, "M"], [1e3, "k"]];
  const [by, prefix] = steps.find(([least]) => number >= least) || [1, ""];
  return `${(number / by).toFixed(by === 1 ? 0 : 1)} ${prefix}${unit}`;
}
