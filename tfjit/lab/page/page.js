"use strict";
/* The page: what is open, selected and shown. */

const FIRST_ITEMS = 160; // boxes that the page opens with, at most
const TABS = ["node", "kernels", "roofline", "summary"];

const $ = (id) => document.getElementById(id);

class Page {
  constructor(data) {
    this.data = data;
    this.history = new History(data);
    this.kernels = new Kernels(data);
    this.opened = new Set();
    this.selectedId = null;
    this.constants = this.onlyChanges = false;
    this.onlyChanging = true;
    this.kernelOrder = "";
    this.drawing = new Drawing($("graph"), $("minimap"));
    this.styles = new Styles(this.kernels, this.history, this.drawing);
    this.drawing.styleOf = (item) => item.style || (item.style = this.styles.of(item));
    this.known = new Map(); // every node that was ever there, as it was last
    for (const frame of this.history.frames) {
      for (const nodes of [frame.added, frame.changed]) for (const node of nodes) this.known.set(node.id, node);
    }
  }

  anyNode(id) {
    return this.known.get(id) || null;
  }

  /* The nodes to show: without constants, or only changes and their neighbours. */
  shownNodes() {
    const { state, ghosts, marks } = this.history;
    const nodes = [...state.values(), ...ghosts];
    if (this.onlyChanges && marks.size) {
      const near = new Set(marks.keys());
      for (const node of nodes) {
        const ends = [...this.inputsOf(node)];
        if (marks.has(node.id)) ends.forEach((id) => near.add(id));
        else if (ends.some((id) => marks.has(id))) near.add(node.id);
      }
      return nodes.filter((node) => near.has(node.id));
    }
    if (this.constants) return nodes;
    return nodes.filter((node) => node.op !== "Const" || marks.has(node.id) || node.id === this.selectedId);
  }

  /* Build tree, edges and positions anew. */
  layout() {
    const nodes = this.shownNodes();
    const timeOf = (id) => {
      const node = this.history.state.get(id);
      const kernel = node && this.kernels.of(node);
      return kernel ? kernel.time : 0;
    };
    const root = buildTree(nodes, this.history.marks, timeOf);
    if (!this.root) openUpTo(root, FIRST_ITEMS, this.opened);
    this.root = root;
    this.items = showTree(root, this.opened);
    const edges = liftEdges(nodes, this.items, (node) => this.history.formerInputs(node));
    layoutScope(root, (item) => this.drawing.sizeOf(item));
    settle(root, 0, 0);
    this.drawing.show(root, edges);
    this.drawing.selected = this.selectedId === null ? null : this.items.get(this.selectedId) || null;
    document.documentElement.dataset.items = root.leaves;
  }

  /* Lay out again; the item stays where it was in the window. */
  update(anchor) {
    const drawing = this.drawing;
    const path = anchor && anchor.path;
    const before = anchor && [(anchor.left - drawing.x) * drawing.scale, (anchor.top - drawing.y) * drawing.scale];
    this.layout();
    const now = path && this.findItem(path);
    if (now) {
      drawing.x = now.left - before[0] / drawing.scale;
      drawing.y = now.top - before[1] / drawing.scale;
    }
    this.draw();
  }

  findItem(path) {
    const search = (scope) => {
      for (const item of scope.items) {
        if (item.path === path) return item;
        if (item.open && path.startsWith(`${item.path}/`)) return search(item);
      }
      return null;
    };
    return search(this.root);
  }

  draw() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => {
      this.waiting = false;
      this.drawing.draw();
    });
  }

  // ---- moments

  goToPass(index) {
    const target = Math.min(Math.max(index, 0), this.history.passes.length - 1);
    if (target !== this.history.pass.index || this.history.frame) this.move(() => this.history.goToPass(target));
  }

  goToFrame(index) {
    if (index >= 0 && index < this.history.frames.length) this.move(() => this.history.goToFrame(index));
  }

  /* The rewrite before or after this moment. */
  step(by) {
    const { frame, pass, applied } = this.history;
    this.goToFrame(frame ? frame.index + by : by < 0 ? applied : pass.last + 1);
  }

  /* Show another moment; what is in the middle of the window stays there. */
  move(change) {
    const anchor = this.selectedId !== null ? this.items.get(this.selectedId) : this.middleItem();
    change();
    this.showMoment();
    this.update(anchor);
    this.bringChanges();
    if (this.selectedId !== null) this.showNode();
  }

  /* Move to the first change where the window shows none. */
  bringChanges() {
    const { marks } = this.history;
    const items = [...new Set([...marks.keys()].map((id) => this.items.get(id)))].filter(Boolean);
    const { x, y, width, height, scale } = this.drawing;
    const inside = (item) => item.left + item.w > x && item.left < x + width / scale &&
      item.top + item.h > y && item.top < y + height / scale;
    if (items.length && !items.some(inside)) this.drawing.centre(items[0]);
  }

  middleItem() {
    const { drawing } = this;
    return drawing.itemAt(drawing.width / 2, drawing.height / 2) || drawing.itemAt(drawing.width / 2, drawing.height / 3);
  }

  showMoment() {
    const { history } = this;
    const { pass, frame } = history;
    $("slider").value = pass.index;
    const moment = $("moment");
    const place = frame ? ` rewrite ${frame.index - pass.first + 1}/${pass.last - pass.first + 1}` : ` ${pass.index + 1}/${history.passes.length}`;
    moment.replaceChildren(part("b", pass.name), `${place}, ${history.state.size} nodes`, counted(history.counts()));
    this.showPasses();
  }

  showPasses() {
    $("passes").replaceChildren(...passList(this, this.onlyChanging));
    const count = this.history.passes.length;
    $("passes-count").textContent = count > 2 ? `${count - 2}, ${this.history.frames.length - 2} rewrites` : "";
    const here = $("passes").querySelector(".rewrite.here") || $("passes").querySelector(".here");
    if (here) here.scrollIntoView({ block: "nearest" });
  }

  // ---- selection

  inputsOf(node) {
    return [...new Set([...node.inputs.filter((_, k) => k % 2 === 0), ...node.controls])];
  }

  usersOf(id) {
    return [...this.history.state.values()].filter((node) => this.inputsOf(node).includes(id)).map((node) => node.id);
  }

  select(id, reveal) {
    this.selectedId = id;
    if (id !== null && reveal) {
      const parts = this.history.names[id].split("/");
      for (let k = 1; k < parts.length; k++) this.opened.add(parts.slice(0, k).join("/"));
      this.layout();
      const item = this.items.get(id);
      if (item) this.drawing.centre(item, Math.max(this.drawing.scale, 0.8));
    }
    this.drawing.selected = id === null ? null : this.items.get(id) || null;
    this.drawing.group = id === null ? undefined : this.kernels.groupOf.get(id);
    if (id !== null) {
      this.showNode();
      this.showTab("node");
    }
    this.draw();
  }

  showNode() {
    $("node").replaceChildren(this.selectedId === null ? this.welcome() : nodePanel(this, this.selectedId));
  }

  selectScope(item) {
    this.drawing.selected = item;
    this.drawing.group = undefined;
    this.selectedId = null;
    const box = part("div");
    box.append(part("h2", item.path), part("span", `${item.leaves} nodes${item.us ? `, ${micro(item.us)}` : ""}`, "soft"));
    const leaves = [];
    const visit = (one) => (one.node ? leaves.push(one.node.id) : one.items.forEach(visit));
    visit(item);
    const time = (id) => (this.kernels.byId.get(id) || { time: 0 }).time;
    linkList(this, box, "Nodes", leaves.sort((a, b) => time(b) - time(a)));
    $("node").replaceChildren(box);
    this.showTab("node");
    this.draw();
  }

  welcome() {
    const box = part("div");
    box.append(part("p", "Select a node to see its text, kernel, generated source and history.", "soft"));
    const longest = this.kernels.first(8);
    if (longest.length) box.append(part("h3", "The longest kernels"));
    box.append(list(longest.map((kernel) => {
      const row = part("span");
      row.append(link(this, kernel.id, this.kernels.tail(kernel)), ` ${micro(kernel.time)}, ${(100 * kernel.share).toFixed(1)}%`);
      return row;
    })));
    return box;
  }

  toggle(item) {
    if (item.open) this.opened.delete(item.path);
    else this.opened.add(item.path);
    this.update(item);
  }

  expandLevel() {
    const closed = [];
    const visit = (scope) => scope.items.forEach((item) => {
      if (item.open) visit(item);
      else if (!item.node) closed.push(item.path);
    });
    visit(this.root);
    closed.forEach((path) => this.opened.add(path));
    return closed.length > 0;
  }

  // ---- panels

  showTab(name) {
    for (const tab of TABS) {
      $(tab).hidden = tab !== name;
      document.querySelector(`[data-tab="${tab}"]`).setAttribute("aria-selected", tab === name);
    }
    if (name === "kernels") $("kernels").replaceChildren(kernelPanel(this, this.kernelOrder));
    if (name === "roofline") $("roofline").replaceChildren(rooflinePanel(this));
  }

  showKernels(order) {
    this.kernelOrder = order;
    this.showTab("kernels");
  }

  showLegend() {
    $("legend").replaceChildren(...this.styles.legend().map(([text, colour]) => {
      const entry = part("span");
      const patch = part("i");
      patch.style.background = colour;
      entry.append(patch, text);
      return entry;
    }));
  }

  showHead() {
    const { data } = this;
    $("title").textContent = data.title;
    $("signature").textContent = `${data.signature === data.title ? "" : `${data.signature}, `}run by ${data.executor}`;
    $("signature").title = $("signature").textContent;
    const native = data.nodes.filter((node) => node.how === "native").length;
    const figures = [[native, "compiled nodes"], [data.groups.length, "fused groups"], [data.sources.length, "kernels"]];
    if (data.measured) figures.unshift([micro(data.measured.step_us), "a run, measured"]);
    else if (this.kernels.total) figures.unshift([micro(this.kernels.total), "predicted, one thread"]);
    $("figures").replaceChildren(...figures.map(([value, text]) => {
      const box = part("div", "", "figure");
      box.append(part("b", String(value)), part("span", text));
      return box;
    }));
    $("summary").replaceChildren(part("pre", data.summary));
    $("summary").firstChild.style.maxHeight = "none";
  }

  setTheme(theme) {
    document.documentElement.dataset.theme = theme;
    this.drawing.readTheme();
    if (this.root) this.restyle();
  }

  restyle() {
    this.showLegend();
    const clear = (item) => {
      item.style = null;
      item.items.forEach(clear);
    };
    clear(this.root);
    this.drawing.overview = null;
    const shown = TABS.find((tab) => !$(tab).hidden);
    if (shown) this.showTab(shown);
    this.draw();
  }

  // ---- search

  find(text) {
    const words = text.toLowerCase().split(/\s+/).filter(Boolean);
    if (!words.length) return [];
    const found = [];
    for (const last of this.known.values()) {
      const node = this.history.state.get(last.id) || last;
      const name = node.name.toLowerCase(), op = node.op.toLowerCase();
      if (words.every((word) => name.includes(word) || op.includes(word))) {
        const rank = (this.history.state.has(node.id) ? 0 : 2) + (words.some((word) => name.endsWith(word)) ? 0 : 1);
        found.push([rank, node]);
      }
    }
    return found.sort((a, b) => a[0] - b[0]).map(([, node]) => node);
  }

  showFound() {
    const nodes = this.find($("search").value);
    const rows = nodes.slice(0, 40).map((node, k) => {
      const row = part("li", node.name, k ? "" : "first");
      row.append(part("small", node.op + (this.history.state.has(node.id) ? "" : ", not in the graph at this moment")));
      row.addEventListener("mousedown", () => this.take(node.id));
      return row;
    });
    if (nodes.length > rows.length) rows.push(part("li", `and ${nodes.length - rows.length} more`, "soft"));
    if (!nodes.length) rows.push(part("li", "nothing found", "soft"));
    $("found").replaceChildren(...rows);
    $("found").hidden = !$("search").value.trim();
    this.results = nodes;
  }

  take(id) {
    $("found").hidden = true;
    $("search").blur();
    this.select(id, true);
  }

  start() {
    const wanted = new URLSearchParams(location.hash.slice(1));
    const dark = matchMedia("(prefers-color-scheme: dark)").matches;
    this.setTheme(wanted.get("theme") || (dark ? "dark" : "light"));
    const last = this.history.passes.length - 1;
    $("slider").max = last;
    this.showHead();
    this.layout();
    if (wanted.has("pass")) {
      this.history.goToPass(Math.min(Number(wanted.get("pass")), last));
      this.layout();
    }
    this.showMoment();
    this.showLegend();
    this.drawing.start();
    this.bringChanges();
    this.drawing.draw();
    this.showNode();
    this.showTab(wanted.get("tab") || "node");
    const id = wanted.has("node") ? this.history.names.indexOf(wanted.get("node")) : -1;
    if (id >= 0) this.select(id, true);
    if (wanted.has("tab")) this.showTab(wanted.get("tab"));
    document.documentElement.dataset.drawnMs = performance.now().toFixed(1);
  }
}
