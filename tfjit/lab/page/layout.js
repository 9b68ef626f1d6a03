"use strict";
/* Place the items of each open scope in rows: the rank of an item is its longest path from a
   source, the order in a row follows barycenters, the positions the neighbours. Each step is
   linear in items and edges. A scope is placed as one box in the scope around it. */

const GAP_X = 22, GAP_Y = 34, PAD = 18, HEAD = 26, SWEEPS = 3, ROW_WIDTH = 1900;

function layoutScope(scope, sizeOf) {
  for (const item of scope.items) {
    if (item.open) layoutScope(item, sizeOf);
    else [item.w, item.h] = sizeOf(item);
  }
  const items = scope.items;
  items.forEach((item, k) => { item.k = k; item.ins = []; item.outs = []; });
  const seen = new Set();
  for (const { from, to } of scope.inner || []) {
    const key = from.k * items.length + to.k;
    if (from === to || seen.has(key)) continue;
    seen.add(key);
    from.outs.push(to);
    to.ins.push(from);
  }
  breakCycles(items);
  const loose = items.filter((item) => !item.ins.length && !item.outs.length);
  const tied = loose.length ? items.filter((item) => item.ins.length || item.outs.length) : items;
  const rows = splitRows([...orderRows(rankRows(tied)), ...(loose.length ? [loose] : [])]);
  placeRows(scope, rows);
}

/* Drop the edges that close a cycle, found by a depth-first search without recursion. */
function breakCycles(items) {
  const state = new Uint8Array(items.length); // 1: on the path, 2: done
  for (const start of [...items.filter((item) => !item.ins.length), ...items]) {
    if (state[start.k]) continue;
    const path = [[start, 0]];
    state[start.k] = 1;
    while (path.length) {
      const top = path[path.length - 1];
      const [item, at] = top;
      if (at === item.outs.length) {
        state[item.k] = 2;
        path.pop();
        continue;
      }
      const next = item.outs[at];
      if (state[next.k] === 1) {
        item.outs.splice(at, 1);
        next.ins.splice(next.ins.indexOf(item), 1);
        continue;
      }
      top[1]++;
      if (!state[next.k]) {
        state[next.k] = 1;
        path.push([next, 0]);
      }
    }
  }
}

function rankRows(items) {
  const left = new Map(items.map((item) => [item, item.ins.length]));
  const ready = items.filter((item) => !item.ins.length);
  for (const item of ready) item.rank = 0;
  for (let k = 0; k < ready.length; k++) {
    for (const next of ready[k].outs) {
      next.rank = Math.max(next.rank || 0, ready[k].rank + 1);
      const count = left.get(next) - 1;
      left.set(next, count);
      if (!count) ready.push(next);
    }
  }
  const rows = [];
  for (const item of ready) {
    // a source stands right above its first user
    if (!item.ins.length && item.outs.length) {
      item.rank = item.outs.reduce((least, next) => Math.min(least, next.rank), Infinity) - 1;
    }
    (rows[item.rank] = rows[item.rank] || []).push(item);
  }
  for (const item of items) delete item.rank;
  return rows.filter(Boolean);
}

function orderRows(rows) {
  const number = (row) => row.forEach((item, k) => { item.x = (k + 0.5) / row.length; });
  rows.forEach(number);
  for (let sweep = 0; sweep < SWEEPS; sweep++) {
    for (const [list, side] of [[rows, "ins"], [[...rows].reverse(), "outs"]]) {
      for (const row of list) {
        for (const item of row) {
          const near = item[side];
          if (near.length) item.x = near.reduce((total, one) => total + one.x, 0) / near.length;
        }
        row.sort((a, b) => a.x - b.x);
        number(row);
      }
    }
  }
  return rows;
}

/* Break rows that are too wide to look at. */
function splitRows(rows) {
  return rows.flatMap((row) => {
    const parts = [[]];
    let width = 0;
    for (const item of row) {
      if (width && width + item.w > ROW_WIDTH) {
        parts.push([]);
        width = 0;
      }
      parts[parts.length - 1].push(item);
      width += item.w + GAP_X;
    }
    return parts;
  });
}

/* Choose x so that items are near their neighbours and do not overlap, then y row by row. */
function placeRows(scope, rows) {
  for (const row of rows) {
    let x = -row.reduce((total, item) => total + item.w + GAP_X, -GAP_X) / 2;
    for (const item of row) {
      item.x = x + item.w / 2;
      x += item.w + GAP_X;
    }
  }
  const passes = [[rows, "ins"], [[...rows].reverse(), "outs"], [rows, "ins"]];
  for (const [list, side] of passes) {
    for (const row of list) {
      pack(row, row.map((item) => {
        const near = item[side];
        return near.length ? near.reduce((total, one) => total + one.x, 0) / near.length : item.x;
      }));
    }
  }
  let left = Infinity, right = -Infinity, y = scope.parent ? HEAD : 0;
  for (const row of rows) {
    const height = Math.max(...row.map((item) => item.h));
    for (const item of row) {
      item.y = y + (height - item.h) / 2;
      left = Math.min(left, item.x - item.w / 2);
      right = Math.max(right, item.x + item.w / 2);
    }
    row.y = y;
    row.h = height;
    y += height + GAP_Y;
  }
  const title = scope.parent ? scope.label.length * 7 + 60 : 0;
  const wide = Math.max(right - left, title);
  const shift = PAD - left + (wide - (right - left)) / 2;
  for (const item of scope.items) item.x += shift - item.w / 2; // from the scope's corner
  scope.rows = rows;
  scope.w = rows.length ? wide + 2 * PAD : 160;
  scope.h = (rows.length ? y - GAP_Y : y) + PAD;
}

/* The positions nearest to the wanted ones, in the least-squares sense, that keep the order and
   the gaps: neighbours that would overlap are pooled and moved as one block. Removed nodes give
   way to the others. */
function pack(row, wanted) {
  const blocks = [];
  let offset = 0;
  row.forEach((item, k) => {
    const weight = item.counts.removed === item.leaves ? 0.01 : 1;
    const place = offset + item.w / 2;
    let block = { sum: weight * (wanted[k] - place), weight, from: k };
    while (blocks.length) {
      const last = blocks[blocks.length - 1];
      if (last.sum / last.weight <= block.sum / block.weight) break;
      blocks.pop();
      block = { sum: last.sum + block.sum, weight: last.weight + block.weight, from: last.from };
    }
    blocks.push(block);
    offset += item.w + GAP_X;
  });
  offset = 0;
  let at = 0;
  row.forEach((item, k) => {
    if (at + 1 < blocks.length && blocks[at + 1].from <= k) at++;
    item.x = blocks[at].sum / blocks[at].weight + offset + item.w / 2;
    offset += item.w + GAP_X;
  });
}

/* Turn positions in scopes into positions on the canvas. */
function settle(scope, x, y) {
  scope.left = x;
  scope.top = y;
  if (!scope.open) return;
  for (const item of scope.items) settle(item, x + item.x, y + item.y);
}
