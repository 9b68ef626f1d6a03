"use strict";
/* The nodes of each moment. A frame, which is one rewrite, is applied forwards and undone backwards;
   a pass is a range of frames. The marks say which nodes a range added, removed and changed. Nodes
   are known by the number of their name. */

class History {
  constructor(data) {
    this.names = data.names;
    this.frames = [];
    this.passes = data.passes.map(([name, where, us, frames, remarks], index) => {
      const pass = { index, name, where, us, remarks, first: this.frames.length };
      for (const [node, reason, added, removed, changed] of frames) {
        this.frames.push({
          index: this.frames.length, pass, node, reason: data.texts[reason], removed,
          added: added.map((row) => this.node(row, data)),
          changed: changed.map((row) => this.node(row, data)),
        });
      }
      pass.last = this.frames.length - 1;
      return pass;
    });
    this.state = new Map();
    this.undo = [];
    this.applied = -1; // the last frame that is applied
    this.marks = new Map();
    this.ghosts = [];
    this.previous = new Map();
    this.pass = null;
    this.frame = null;
    for (const pass of this.passes) {
      this.goToPass(pass.index);
      pass.counts = this.counts();
    }
  }

  node([id, op, inputs, controls, text], data) {
    return { id, name: data.names[id], op: data.ops[op], inputs, controls, text: data.texts[text] };
  }

  counts() {
    const counts = { added: 0, removed: 0, changed: 0 };
    for (const mark of this.marks.values()) counts[mark]++;
    return counts;
  }

  /* Show what a whole pass changed. */
  goToPass(index) {
    this.pass = this.passes[index];
    this.frame = null;
    this.goTo(this.pass.last, this.pass.first - 1);
  }

  /* Show what one rewrite changed. */
  goToFrame(index) {
    this.frame = this.frames[index];
    this.pass = this.frame.pass;
    this.goTo(index, index - 1);
  }

  /* The given graph and the graph that runs are no passes: nothing in them is marked. */
  get isEnd() {
    return this.pass.index === 0 || this.pass.index === this.passes.length - 1;
  }

  goTo(target, base) {
    while (this.applied < target) this.apply();
    while (this.applied > target) this.revert();
    this.marks = new Map();
    this.ghosts = [];
    this.previous = new Map();
    if (this.isEnd) return;
    for (let k = base + 1; k <= target; k++) {
      for (const [id, before] of this.undo[k]) {
        if (!this.previous.has(id)) this.previous.set(id, before || null);
      }
    }
    for (const [id, before] of this.previous) {
      const now = this.state.get(id);
      if (now && now !== before) this.marks.set(id, before ? "changed" : "added");
      if (before && !now) {
        this.marks.set(id, "removed");
        this.ghosts.push(before);
      }
    }
  }

  /* The removed nodes that a changed node read before. */
  formerInputs(node) {
    const before = this.marks.get(node.id) === "changed" && this.previous.get(node.id);
    if (!before) return [];
    return before.inputs.filter((id, k) => k % 2 === 0 && this.marks.get(id) === "removed");
  }

  apply() {
    const frame = this.frames[++this.applied];
    const before = [];
    for (const id of frame.removed) {
      before.push([id, this.state.get(id)]);
      this.state.delete(id);
    }
    for (const nodes of [frame.added, frame.changed]) {
      for (const node of nodes) {
        before.push([node.id, this.state.get(node.id)]);
        this.state.set(node.id, node);
      }
    }
    this.undo[this.applied] = before;
  }

  revert() {
    for (const [id, node] of [...this.undo[this.applied--]].reverse()) {
      if (node) this.state.set(id, node);
      else this.state.delete(id);
    }
  }

  static changes(pass) {
    return pass.counts.added + pass.counts.removed + pass.counts.changed > 0;
  }

  /* The next pass in that direction that changed the graph, or the end. */
  nextChange(step) {
    const end = step < 0 ? 0 : this.passes.length - 1;
    for (let k = this.pass.index + step; step * (end - k) > 0; k += step) {
      if (History.changes(this.passes[k])) return k;
    }
    return end;
  }

  /* The rewrites that touched a node, with how. */
  storyOf(id) {
    const story = [];
    const has = (nodes) => nodes.some((node) => node.id === id);
    for (const frame of this.frames) {
      if (has(frame.added)) story.push([frame, "added"]);
      else if (has(frame.changed)) story.push([frame, "changed"]);
      else if (frame.removed.includes(id)) story.push([frame, "removed"]);
    }
    return story;
  }
}
