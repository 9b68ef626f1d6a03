"use strict";
/* The kernels of the nodes that run: times, shares, and the fused groups with their members. */

class Kernels {
  constructor(data) {
    this.byId = new Map();
    for (const entry of data.nodes) {
      const kernel = { us: 0, took: 0, bytes: 0, flops: 0, kernels: [], sources: [], members: [], ...entry,
        id: entry.n, name: data.names[entry.n], op: data.ops[entry.o] };
      kernel.time = kernel.took || (data.measured ? 0 : kernel.us);
      this.byId.set(kernel.id, kernel);
    }
    const all = [...this.byId.values()];
    this.total = all.reduce((sum, kernel) => sum + kernel.time, 0);
    this.longest = all.reduce((most, kernel) => Math.max(most, kernel.time), 0);
    for (const kernel of all) kernel.share = this.total ? kernel.time / this.total : 0;
    this.tails = countTails(all.filter((kernel) => kernel.how !== "constant").map((kernel) => kernel.name));
    this.readGroups(data);
  }

  /* groups: the kind and the op types of each fused node. groupOf: the fused node of each member. */
  readGroups(data) {
    this.groups = new Map();
    this.groupOf = new Map();
    for (const [id, kind, ops] of data.groups) {
      this.groups.set(id, { kind, ops: ops.map((op) => data.ops[op]) });
      this.groupOf.set(id, id);
      const kernel = this.byId.get(id);
      for (const member of kernel ? kernel.members : []) {
        // a node that still runs by itself only gave the group a part of what it does
        if (!this.byId.has(member)) this.groupOf.set(member, id);
      }
    }
  }

  /* The kernel of a node, where the node is already the one that runs. */
  of(node) {
    const kernel = this.byId.get(node.id);
    return kernel && kernel.op === node.op ? kernel : null;
  }

  /* The longest kernels, in order. */
  first(count) {
    const timed = [...this.byId.values()].filter((kernel) => kernel.time);
    return timed.sort((a, b) => b.time - a.time).slice(0, count);
  }

  tail(kernel) {
    return tailOf(kernel.name, this.tails);
  }
}

/* How many of the names end with the same parts. */
function countTails(names) {
  const tails = new Map();
  for (const name of names) {
    const parts = name.split("/");
    for (let k = 2; k < parts.length; k++) {
      const tail = parts.slice(-k).join("/");
      tails.set(tail, (tails.get(tail) || 0) + 1);
    }
  }
  return tails;
}

/* The end of a name, of as many parts as tell it from the others, two at least. */
function tailOf(name, tails) {
  const parts = name.split("/");
  for (let k = 2; k < parts.length; k++) {
    const tail = parts.slice(-k).join("/");
    if (tails.get(tail) === 1) return tail;
  }
  return name;
}
