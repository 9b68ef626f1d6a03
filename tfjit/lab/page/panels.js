"use strict";
/* The panels beside the graph. Every text of the data is set as text, never as markup. */

function part(tag, text, name) {
  const made = document.createElement(tag);
  if (text !== undefined && text !== "") made.textContent = text;
  if (name) made.className = name;
  return made;
}

function counted(counts) {
  const span = part("span", "", "counts");
  for (const [sign, key] of [["+", "added"], ["−", "removed"], ["~", "changed"]]) {
    if (counts[key]) span.append(part("i", sign + counts[key], key));
  }
  return span;
}

/* A region or device as a short text. */
function placeText(where) {
  const device = where.lastIndexOf("/device:");
  return device < 0 ? where : where.slice(device + "/device:".length);
}

const MOST_ROWS = 300; // rewrites of one pass that the list shows

/* The list of passes; the rewrites of the shown one stand below it. */
function passList(page, onlyChanging) {
  const { history } = page;
  const rows = [];
  for (const pass of history.passes) {
    const end = pass.index === 0 || pass.index === history.passes.length - 1;
    if (onlyChanging && !end && !History.changes(pass)) continue;
    const row = part("li", "", end || History.changes(pass) ? "" : "quiet");
    const name = part("span", pass.name, "name");
    name.title = `${pass.name}${pass.us ? `, ${micro(pass.us)}` : ""}`;
    row.append(name, counted(pass.counts));
    if (pass.where) row.append(part("span", placeText(pass.where), "where"));
    row.classList.toggle("here", pass === history.pass);
    row.addEventListener("click", () => page.goToPass(pass.index));
    rows.push(row);
    if (pass === history.pass && pass.last > pass.first && !end) rows.push(...rewriteRows(page, pass));
  }
  return rows;
}

function rewriteRows(page, pass) {
  const { history } = page;
  const frames = history.frames.slice(pass.first, pass.last + 1).filter((frame) => frame.reason);
  const nameOf = (frame) => (frame.node < 0 ? "" : history.names[frame.node]);
  const tails = countTails(new Set(frames.map(nameOf)));
  const rows = frames.slice(0, MOST_ROWS).map((frame) => {
    const row = part("li", "", "rewrite");
    const of = nameOf(frame);
    row.append(part("span", tailOf(of, tails), "name"), part("span", frame.reason, "where"));
    row.title = `${of}: ${frame.reason}`;
    row.classList.toggle("here", frame === history.frame);
    row.addEventListener("click", () => page.goToFrame(frame.index));
    return row;
  });
  if (frames.length > MOST_ROWS) rows.push(part("li", `and ${frames.length - MOST_ROWS} more`, "rewrite soft"));
  return rows;
}

const WORDS = new Set(("def return for in if else elif while import from as and or not is None True False " +
  "pass break continue with yield lambda class global range").split(" "));
const TOKENS = /(#[^\n]*)|("""[\s\S]*?"""|"[^"\n]*"|'[^'\n]*')|\b(\d[\w.]*)|\b([A-Za-z_]\w*)/g;

/* Python text with its comments, strings, numbers and keywords coloured. */
function sourceText(text) {
  const block = part("pre");
  let end = 0;
  for (const match of text.matchAll(TOKENS)) {
    const kind = match[1] ? "note" : match[2] ? "text" : match[3] ? "number" : WORDS.has(match[4]) ? "word" : "";
    if (!kind) continue;
    block.append(text.slice(end, match.index), part("span", match[0], kind));
    end = match.index + match[0].length;
  }
  block.append(text.slice(end));
  return block;
}

/* What is known of one node: its text, kernel, inputs, users and history. */
function nodePanel(page, id) {
  const box = part("div");
  const { history, kernels, data } = page;
  const node = history.state.get(id) || history.previous.get(id) || page.anyNode(id);
  const kernel = kernels.byId.get(id);
  box.append(part("h2", history.names[id]));
  if (node) box.append(part("span", node.op, "op"));
  const mark = history.marks.get(id);
  if (mark) box.append(" ", part("span", `${mark} by ${history.pass.name}`, mark));
  if (!history.state.has(id) && !mark) box.append(" ", part("span", "not in the graph at this moment", "soft"));
  const remarks = history.passes.flatMap((pass) => pass.remarks
    .filter(([of]) => of === id).map(([, text]) => [pass, data.texts[text]]));
  if (kernel) kernelPart(page, box, kernel);
  const group = kernels.groupOf.get(id);
  if (group !== undefined && group !== id) {
    box.append(part("h3", "Ends in"), list([link(page, group)]));
  }
  if (node) {
    box.append(part("h3", "Text"));
    const before = mark === "changed" ? history.previous.get(id) : null;
    if (before && before.text !== node.text) box.append(part("pre", before.text, "wrap removed"));
    box.append(part("pre", node.text, `wrap${mark ? ` ${mark}` : ""}`));
    linkList(page, box, "Inputs", page.inputsOf(node));
    linkList(page, box, "Users", page.usersOf(id));
  }
  if (kernel && kernel.members.length) linkList(page, box, "Nodes it represents", kernel.members);
  if (remarks.length) {
    box.append(part("h3", "Remarks of the passes"));
    box.append(list(remarks.slice(0, 30).map(([pass, text]) => momentLink(page, pass, null, text))));
  }
  const story = history.storyOf(id);
  box.append(part("h3", "History"));
  box.append(list(story.map(([frame, how]) => momentLink(page, frame.pass, frame, how))));
  if (kernel) for (const k of kernel.sources) box.append(...sourcePart(data.sources[k]));
  return box;
}

function kernelPart(page, box, kernel) {
  const rows = [["served by", kernel.how]];
  if (kernel.took) rows.push(["measured", micro(kernel.took)]);
  if (kernel.us) rows.push(["predicted", `${micro(kernel.us)} on one thread`]);
  if (kernel.limit && kernel.time) {
    const [least, cause] = kernel.limit;
    rows.push(["machine's limit", `${micro(least)} by ${cause}, ${((100 * least) / kernel.time).toFixed(0)}% reached`]);
  }
  if (kernel.bytes) rows.push(["moves", short(kernel.bytes, "B")]);
  if (kernel.flops) rows.push(["computes", short(kernel.flops, "flops")]);
  if (kernel.chunks) rows.push(["chunks", kernel.chunks]);
  if (kernel.kernels.length) rows.push(["kernel", kernel.kernels.join("; ")]);
  if (kernel.reason) rows.push(["because", kernel.reason]);
  box.append(part("h3", "Kernel"));
  const table = part("table");
  for (const [name, value] of rows) {
    const row = part("tr");
    const cell = part("td", value);
    cell.style.whiteSpace = "normal";
    cell.style.overflowWrap = "anywhere";
    row.append(part("td", name, "soft"), cell);
    table.append(row);
  }
  box.append(table);
  if (kernel.group) {
    box.append(part("h3", "Fused group"), part("pre", kernel.group, "wrap"));
  }
}

function sourcePart({ title, writer, text }) {
  const fold = part("details");
  fold.open = text.length < 20000;
  fold.append(part("summary", writer ? `${title}, written by ${writer}` : title), sourceText(text));
  return [part("h3", "Generated source"), fold];
}

function list(parts) {
  const made = part("ul");
  for (const one of parts) {
    const row = part("li");
    row.append(one);
    made.append(row);
  }
  return made;
}

function link(page, id, label) {
  const made = part("a", label || page.history.names[id], "node");
  made.addEventListener("click", () => page.select(id, true));
  return made;
}

/* A link to a pass or one rewrite in it. text: a remark, or how the rewrite touched the node. */
function momentLink(page, pass, frame, text) {
  const box = part("span");
  const made = part("a", pass.name, "node");
  made.addEventListener("click", () => {
    if (frame && pass.last > pass.first) page.goToFrame(frame.index);
    else page.goToPass(pass.index);
  });
  box.append(made, pass.where ? ` in ${placeText(pass.where)}` : "", ": ", part("span", text, frame ? text : ""));
  if (frame && frame.reason) box.append(part("span", ` (${frame.reason})`, "soft"));
  return box;
}

function linkList(page, box, title, ids) {
  if (!ids.length) return;
  box.append(part("h3", `${title} (${ids.length})`));
  box.append(list(ids.slice(0, 60).map((id) => link(page, id))));
  if (ids.length > 60) box.append(part("span", `and ${ids.length - 60} more`, "soft"));
}

/* The kernels by time, or by the column that was clicked. */
function kernelPanel(page, order) {
  const box = part("div");
  const rows = [...page.kernels.byId.values()].filter((kernel) => kernel.time || kernel.how === "native" || kernel.how === "reference");
  const columns = [
    ["node", (k) => k.name, (a, b) => a.name.localeCompare(b.name)],
    ["predicted", (k) => (k.us ? micro(k.us) : ""), (a, b) => b.us - a.us],
  ];
  if (page.data.measured) columns.push(["measured", (k) => (k.took ? micro(k.took) : ""), (a, b) => b.took - a.took]);
  columns.push(["share", (k) => (k.time ? `${(100 * k.share).toFixed(1)}%` : ""), (a, b) => b.time - a.time]);
  columns.push(["limit", (k) => (k.limit && k.time ? `${((100 * k.limit[0]) / k.time).toFixed(0)}%` : ""),
    (a, b) => (b.limit && b.time ? b.limit[0] / b.time : 0) - (a.limit && a.time ? a.limit[0] / a.time : 0)]);
  const chosen = columns.find(([name]) => name === order) || columns[columns.length - 2];
  rows.sort(chosen[2]);
  const table = part("table"), head = part("thead"), body = part("tbody"), titles = part("tr");
  for (const [name] of columns) {
    const cell = part("th", name + (name === chosen[0] ? " ▾" : ""));
    if (name === "node") cell.style.width = "38%";
    cell.addEventListener("click", () => page.showKernels(name));
    titles.append(cell);
  }
  head.append(titles);
  const longest = rows.reduce((most, kernel) => Math.max(most, kernel.time), 0);
  for (const kernel of rows.slice(0, 400)) {
    const row = part("tr");
    for (const [name, text] of columns) {
      const cell = part("td", name === "node" ? page.kernels.tail(kernel) : text(kernel));
      if (name === "node") {
        cell.title = `${kernel.name} (${kernel.op})`;
        const bar = part("i", "", "bar");
        bar.style.width = `${(100 * kernel.time) / (longest || 1)}%`;
        bar.style.background = page.styles.colourOf(kernel.id) || "";
        cell.append(bar);
      }
      row.append(cell);
    }
    row.addEventListener("click", () => page.select(kernel.id, true));
    body.append(row);
  }
  table.append(head, body);
  box.append(table);
  if (rows.length > 400) box.append(part("p", `and ${rows.length - 400} more`, "soft"));
  return box;
}

function rooflinePanel(page) {
  const box = part("div");
  const { limits, threads } = page.data;
  if (!limits) {
    box.append(part("p", "The machine's limits are not known.", "soft"));
    return box;
  }
  box.append(rooflineSvg([...page.kernels.byId.values()], limits, threads,
    (kernel) => page.styles.colourOf(kernel.id) || page.drawing.colours.accent, (id) => page.select(id, true)));
  const rates = limits.copy.map(([size, rate], k) => k < limits.copy.length - 1
    ? `${rate.toFixed(0)} GB/s up to ${short(size, "B")}` : `${rate.toFixed(0)} GB/s beyond`);
  box.append(part("p", `One thread copies ${rates.join(", ")}; its multiply-adds reach ` +
    `${limits.fma.toFixed(0)} GF/s. The roofs are those of ${threads} thread${threads > 1 ? "s" : ""}; ` +
    (page.data.measured ? "a full point is measured." : "points are predicted for one thread."), "soft"));
  return box;
}
