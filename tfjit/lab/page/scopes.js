"use strict";
/* The tree of name scopes over the nodes of one moment. An item is a leaf (one node) or a scope.
   A scope of one item is that item; open scopes show their items, closed ones a box. */

function newScope(path, label, parent) {
  return { path, label, parent, children: new Map(), node: null, items: [], leaves: 0, open: false,
    counts: { added: 0, removed: 0, changed: 0 }, us: 0, depth: parent ? parent.depth + 1 : 0 };
}

function buildTree(nodes, marks, timeOf) {
  const root = newScope("", "", null);
  for (const node of nodes) {
    const parts = node.name.split("/");
    let scope = root;
    for (let k = 0; k < parts.length - 1; k++) {
      let next = scope.children.get(parts[k]);
      if (!next) {
        next = newScope(scope.path ? `${scope.path}/${parts[k]}` : parts[k], parts[k], scope);
        scope.children.set(parts[k], next);
      }
      scope = next;
    }
    const leaf = newScope(node.name, parts[parts.length - 1], scope);
    leaf.node = node;
    // A loop's node has the name of the scope of its body: the mark keeps them apart.
    scope.children.set(`${leaf.label}\u0000`, leaf);
  }
  sum(root, marks, timeOf);
  return root;
}

/* Add up leaves, changes and times, and join scopes of one item with it. */
function sum(scope, marks, timeOf) {
  if (scope.node) {
    scope.leaves = 1;
    scope.us = timeOf(scope.node.id);
    const mark = marks.get(scope.node.id);
    if (mark) scope.counts[mark] = 1;
    return scope;
  }
  for (const child of scope.children.values()) {
    const item = sum(child, marks, timeOf);
    item.parent = scope;
    scope.items.push(item);
    scope.leaves += item.leaves;
    scope.us += item.us;
    for (const mark of ["added", "removed", "changed"]) scope.counts[mark] += item.counts[mark];
  }
  if (scope.items.length === 1 && scope.parent) {
    const [only] = scope.items;
    only.label = `${scope.label}/${only.label}`;
    return only;
  }
  return scope;
}

/* Open scopes from the top, small ones first, while the picture has at most `limit` items. */
function openUpTo(root, limit, opened) {
  let shown = root.items.length;
  let level = root.items.filter((item) => !item.node);
  while (level.length) {
    level.sort((a, b) => a.items.length - b.items.length);
    const next = [];
    for (const scope of level) {
      if (shown + scope.items.length - 1 > limit) return;
      shown += scope.items.length - 1;
      opened.add(scope.path);
      next.push(...scope.items.filter((item) => !item.node));
    }
    level = next;
  }
}

/* Set which scopes are open, and return the shown item of each node by its number. */
function showTree(root, opened) {
  const shown = new Map();
  function visit(item, seen, depth) {
    item.depth = depth;
    item.open = !item.node && (item === root || opened.has(item.path)) && seen === null;
    const shows = seen || (item.open ? null : item);
    if (item.node) shown.set(item.node.id, shows);
    for (const child of item.items) visit(child, shows, depth + 1);
  }
  visit(root, null, 0);
  return shown;
}

/* Return the edges between shown items, each once, and give them to the scope that holds both.
   formerInputs: of a node, the removed nodes that it read before. */
function liftEdges(nodes, shown, formerInputs) {
  const edges = new Map();
  for (const node of nodes) {
    const to = shown.get(node.id);
    const link = (source, control) => {
      const from = shown.get(source);
      if (!from || from === to) return;
      let row = edges.get(from);
      if (!row) edges.set(from, (row = new Map()));
      const edge = row.get(to);
      if (edge) {
        edge.count++;
        edge.control = edge.control && control;
      } else row.set(to, { from, to, count: 1, control });
    };
    for (let k = 0; k < node.inputs.length; k += 2) link(node.inputs[k], false);
    for (const source of node.controls) link(source, true);
    for (const source of formerInputs(node)) link(source, true);
  }
  const list = [];
  for (const row of edges.values()) list.push(...row.values());
  for (const edge of list) {
    let { from: a, to: b } = edge;
    while (a.depth > b.depth) a = a.parent;
    while (b.depth > a.depth) b = b.parent;
    while (a.parent !== b.parent) [a, b] = [a.parent, b.parent];
    const scope = a.parent;
    (scope.inner = scope.inner || []).push({ from: a, to: b, edge });
  }
  return list;
}
