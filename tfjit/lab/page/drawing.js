"use strict";
/* Draw the visible part of the graph: rows and scopes outside the window are skipped, and small
   boxes have no text. Positions are those of layout.js. */

const LABEL = "600 12px system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif";
const SMALL = "11px system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif";
const TEXT_SCALE = 0.42, ARROW_SCALE = 0.3, MAX_SCALE = 2.5;

class Drawing {
  constructor(canvas, minimap) {
    this.canvas = canvas;
    this.minimap = minimap;
    this.pen = canvas.getContext("2d");
    this.scale = 1;
    this.x = this.y = 0; // the window's corner in the graph
    this.root = null;
    this.selected = null;
    this.group = undefined; // of the selected node
    this.edges = new Map(); // item -> its edges, for the selected one
    this.widths = new Map();
    this.colours = {};
    this.drawn = 0;
    this.styleOf = () => ({});
    this.readTheme();
    this.resize();
  }

  readTheme() {
    const style = getComputedStyle(document.documentElement);
    const read = (name) => style.getPropertyValue(`--${name}`).trim();
    for (const name of ["ink", "soft", "line", "scope", "scope-open", "scope-line", "edge",
      "edge-strong", "leaf", "leaf-line", "added", "removed", "changed", "accent", "panel"]) {
      this.colours[name] = read(name);
    }
    this.kinds = Array.from({ length: 10 }, (_, k) => read(`kind-${k}`));
    this.tint = Number(read("tint"));
  }

  resize() {
    const ratio = window.devicePixelRatio || 1;
    for (const canvas of [this.canvas, this.minimap]) {
      canvas.width = Math.max(1, Math.round(canvas.clientWidth * ratio));
      canvas.height = Math.max(1, Math.round(canvas.clientHeight * ratio));
    }
    this.ratio = ratio;
    this.width = this.canvas.clientWidth;
    this.height = this.canvas.clientHeight;
    this.overview = null;
  }

  textWidth(text, font) {
    const key = font + text;
    let width = this.widths.get(key);
    if (width === undefined) {
      this.pen.font = font;
      this.widths.set(key, (width = this.pen.measureText(text).width));
    }
    return width;
  }

  /* The text, shortened in front to fit: the end of a name tells nodes apart. */
  fitted(text, width, font) {
    if (this.textWidth(text, font) <= width) return text;
    const count = Math.floor((text.length * width) / this.textWidth(text, font)) - 1;
    return `…${text.slice(text.length - Math.max(count, 1))}`;
  }

  sizeOf(item) {
    const { lines } = this.styleOf(item);
    let width = this.textWidth(item.label, LABEL) + 26;
    for (const line of lines) width = Math.max(width, this.textWidth(line, SMALL) + 26);
    return [Math.round(Math.min(Math.max(width, 88), 236)), 26 + 15 * lines.length];
  }

  show(root, edges) {
    this.root = root;
    this.edges = new Map();
    for (const edge of edges) {
      for (const end of [edge.from, edge.to]) {
        if (!this.edges.has(end)) this.edges.set(end, []);
        this.edges.get(end).push(edge);
      }
    }
    this.overview = null;
  }

  fit() {
    const margin = 40, top = 52;
    const scale = Math.min((this.width - 2 * margin) / this.root.w, (this.height - top - margin) / this.root.h);
    this.scale = Math.min(Math.max(scale, 0.01), 1.1);
    this.x = this.root.w / 2 - this.width / 2 / this.scale;
    this.y = -top / this.scale;
    if (this.root.h * this.scale < this.height - top) {
      this.y = this.root.h / 2 - (this.height + top - margin) / 2 / this.scale;
    }
  }

  /* Begin at the top, at a size at which names can be read. */
  start() {
    this.fit();
    if (this.scale >= 0.62) return;
    this.scale = Math.min(0.9, Math.max(0.62, (this.width - 40) / this.root.w));
    const first = this.root.rows && this.root.rows[0] ? this.root.rows[0] : [];
    const middle = first.length ? first.reduce((total, item) => total + item.left + item.w / 2, 0) / first.length : 0;
    this.x = middle - this.width / 2 / this.scale;
    this.y = -56 / this.scale;
  }

  centre(item, scale) {
    if (scale) this.scale = scale;
    this.x = item.left + item.w / 2 - this.width / 2 / this.scale;
    this.y = item.top + Math.min(item.h, this.height / 2 / this.scale) / 2 - this.height / 2 / this.scale;
  }

  zoom(factor, px, py) {
    const before = this.scale;
    const least = Math.min(0.05, (0.5 * this.width) / this.root.w, (0.5 * this.height) / this.root.h);
    this.scale = Math.min(MAX_SCALE, Math.max(least, before * factor));
    this.x += px / before - px / this.scale;
    this.y += py / before - py / this.scale;
  }

  itemAt(px, py) {
    const x = this.x + px / this.scale, y = this.y + py / this.scale;
    let found = null;
    let scope = this.root;
    while (scope) {
      const inside = scope.items.find((item) => item.left <= x && x <= item.left + item.w && item.top <= y && y <= item.top + item.h);
      if (inside) found = inside;
      scope = inside && inside.open ? inside : null;
    }
    return found;
  }

  draw() {
    const pen = this.pen, scale = this.scale * this.ratio;
    pen.setTransform(1, 0, 0, 1, 0, 0);
    pen.clearRect(0, 0, this.canvas.width, this.canvas.height);
    pen.setTransform(scale, 0, 0, scale, -this.x * scale, -this.y * scale);
    this.window = [this.x, this.y, this.x + this.width / this.scale, this.y + this.height / this.scale];
    this.drawn = 0;
    this.drawScope(this.root);
    this.drawStrongEdges();
    this.drawOverview();
  }

  sees(left, top, right, bottom) {
    const [x0, y0, x1, y1] = this.window;
    return left <= x1 && right >= x0 && top <= y1 && bottom >= y0;
  }

  drawScope(scope) {
    const pen = this.pen;
    pen.lineWidth = Math.max(1.1, 0.7 / this.scale);
    pen.strokeStyle = pen.fillStyle = this.colours.edge;
    // below this scale the lines of one path are drawn in one stroke
    const plain = this.scale < ARROW_SCALE;
    if (plain) pen.beginPath();
    for (const { edge } of scope.inner || []) this.drawEdge(edge, plain);
    if (plain) pen.stroke();
    const rows = scope.rows || [];
    let k = this.firstRow(scope, rows);
    for (; k < rows.length && scope.top + rows[k].y <= this.window[3]; k++) {
      for (const item of rows[k]) {
        if (!this.sees(item.left, item.top, item.left + item.w, item.top + item.h)) continue;
        if (item.open) {
          this.drawOpen(item);
          this.drawScope(item);
        } else this.drawBox(item);
      }
    }
  }

  /* The first row that ends below the window's top, by bisection. */
  firstRow(scope, rows) {
    let low = 0, high = rows.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (scope.top + rows[middle].y + rows[middle].h < this.window[1]) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  ends({ from, to }) {
    const x0 = from.left + from.w / 2, y0 = from.top + from.h;
    const x1 = to.left + to.w / 2, y1 = to.top;
    return [x0, y0, x1, y1];
  }

  drawEdge(edge, plain) {
    const [x0, y0, x1, y1] = this.ends(edge);
    if (!this.sees(Math.min(x0, x1) - 40, Math.min(y0, y1) - 40, Math.max(x0, x1) + 40, Math.max(y0, y1) + 40)) return;
    const pen = this.pen;
    if (plain) {
      pen.moveTo(x0, y0);
      pen.lineTo(x1, y1);
      return;
    }
    pen.setLineDash(edge.control ? [4, 4] : []);
    pen.beginPath();
    this.curve(x0, y0, x1, y1 - 5);
    pen.stroke();
    pen.setLineDash([]);
    pen.beginPath();
    pen.moveTo(x1, y1);
    pen.lineTo(x1 - 4, y1 - 7);
    pen.lineTo(x1 + 4, y1 - 7);
    pen.fill();
  }

  curve(x0, y0, x1, y1) {
    const bend = y1 > y0 ? Math.min(60, (y1 - y0) / 2) : 50;
    this.pen.moveTo(x0, y0);
    this.pen.bezierCurveTo(x0, y0 + bend, x1, y1 - bend, x1, y1);
  }

  drawStrongEdges() {
    const pen = this.pen;
    pen.strokeStyle = pen.fillStyle = this.colours["edge-strong"];
    pen.lineWidth = Math.max(2, 1.4 / this.scale);
    for (const edge of this.edges.get(this.selected) || []) this.drawEdge(edge, false);
  }

  box(item, radius) {
    this.pen.beginPath();
    this.pen.roundRect(item.left, item.top, item.w, item.h, radius);
  }

  drawOpen(item) {
    const pen = this.pen;
    this.box(item, 10);
    pen.fillStyle = this.colours["scope-open"];
    pen.fill();
    pen.lineWidth = Math.max(1, 0.7 / this.scale);
    pen.strokeStyle = item === this.selected ? this.colours.accent : this.colours["scope-line"];
    pen.stroke();
    if (this.scale < TEXT_SCALE) return;
    pen.font = LABEL;
    pen.fillStyle = this.colours.soft;
    pen.textBaseline = "top";
    pen.fillText(`▾ ${this.fitted(item.label, item.w - 40, LABEL)}`, item.left + 10, item.top + 7);
  }

  drawBox(item) {
    this.drawn++;
    const pen = this.pen, style = this.styleOf(item);
    if (this.scale < 0.12) {
      pen.fillStyle = style.mark ? this.colours[style.mark] : style.colour || this.colours["leaf-line"];
      pen.fillRect(item.left, item.top, item.w, item.h);
      return;
    }
    const radius = item.node ? 6 : 9;
    if (!item.node) { // a closed scope looks like a stack
      pen.lineWidth = 1;
      pen.strokeStyle = this.colours["scope-line"];
      pen.fillStyle = this.colours.scope;
      pen.beginPath();
      pen.roundRect(item.left + 4, item.top + 4, item.w, item.h, radius);
      pen.fill();
      pen.stroke();
    }
    this.box(item, radius);
    pen.fillStyle = item.node ? this.colours.leaf : this.colours.scope;
    pen.fill();
    if (style.colour) {
      pen.globalAlpha = style.tint === undefined ? this.tint : style.tint;
      pen.fillStyle = style.colour;
      pen.fill();
      pen.globalAlpha = 1;
    }
    pen.lineWidth = style.mark ? 2.5 : item === this.selected ? 2 : 1.1;
    pen.strokeStyle = style.mark ? this.colours[style.mark] : style.colour || this.colours["leaf-line"];
    if (style.mark === "removed") pen.setLineDash([5, 4]);
    pen.stroke();
    pen.setLineDash([]);
    // the selected node, and thinner the others of its fused group
    if (item === this.selected || (item.node && this.group !== undefined && style.group === this.group)) {
      pen.lineWidth = item === this.selected ? 2.5 : 1;
      pen.strokeStyle = this.colours.accent;
      pen.beginPath();
      pen.roundRect(item.left - 4, item.top - 4, item.w + 8, item.h + 8, radius + 4);
      pen.stroke();
    }
    if (style.share) {
      pen.fillStyle = style.colour || this.colours.accent;
      pen.beginPath();
      pen.roundRect(item.left + 6, item.top + item.h - 4.5, Math.max(2, (item.w - 12) * style.share), 3, 1.5);
      pen.fill();
    }
    if (this.scale >= TEXT_SCALE) this.drawText(item, style);
  }

  drawText(item, { lines, mark }) {
    const pen = this.pen, x = item.left + 12;
    pen.textBaseline = "top";
    pen.font = LABEL;
    pen.fillStyle = mark ? this.colours[mark] : this.colours.ink;
    const label = this.fitted(item.label, item.w - 22, LABEL);
    pen.fillText(label, x, item.top + 6);
    if (mark === "removed") pen.fillRect(x, item.top + 12.5, this.textWidth(label, LABEL), 1);
    pen.font = SMALL;
    pen.fillStyle = this.colours.soft;
    lines.forEach((line, k) => pen.fillText(this.fitted(line, item.w - 22, SMALL), x, item.top + 21 + 15 * k));
  }

  /* The overview has the whole graph, drawn once, and the window as a frame. */
  drawOverview() {
    const pen = this.minimap.getContext("2d");
    const { width, height } = this.minimap;
    const scale = Math.min((width - 12) / this.root.w, (height - 12) / this.root.h, 0.4 * this.ratio);
    this.overviewAt = { scale, x: (width - this.root.w * scale) / 2, y: (height - this.root.h * scale) / 2 };
    if (!this.overview) {
      this.overview = document.createElement("canvas");
      this.overview.width = width;
      this.overview.height = height;
      this.paintOverview(this.overview.getContext("2d"), this.root, this.overviewAt);
    }
    pen.clearRect(0, 0, width, height);
    pen.drawImage(this.overview, 0, 0);
    pen.strokeStyle = this.colours.accent;
    pen.lineWidth = 1.5 * this.ratio;
    const { x, y } = this.overviewAt;
    const left = Math.max(1, x + this.x * scale), top = Math.max(1, y + this.y * scale);
    const right = Math.min(width - 1, x + (this.x + this.width / this.scale) * scale);
    const bottom = Math.min(height - 1, y + (this.y + this.height / this.scale) * scale);
    pen.strokeRect(left, top, Math.max(3, right - left), Math.max(3, bottom - top));
  }

  paintOverview(pen, scope, at) {
    for (const item of scope.items) {
      if (item.open) {
        this.paintOverview(pen, item, at);
        continue;
      }
      const style = this.styleOf(item);
      pen.fillStyle = style.mark ? this.colours[style.mark] : style.colour || this.colours["scope-line"];
      pen.fillRect(at.x + item.left * at.scale, at.y + item.top * at.scale,
        Math.max(1.5, item.w * at.scale), Math.max(1.5, item.h * at.scale));
    }
  }

  moveTo(px, py) {
    const { scale, x, y } = this.overviewAt;
    this.x = (px * this.ratio - x) / scale - this.width / 2 / this.scale;
    this.y = (py * this.ratio - y) / scale - this.height / 2 / this.scale;
  }
}
