"use strict";
/* Colours and texts of the boxes: by fused group, by time, or by what serves a node. */

const KINDS = ["conv2d", "depthwise", "loop", "matmul", "reduce", "rows", "attention", "pool_gradient", "program"];
const SERVED = ["native", "reference", "runtime", "view", "variable", "constant", "feed", "fetch", "dataflow"];
const HEAT = 4; // the colour of times

class Styles {
  constructor(kernels, history, drawing) {
    Object.assign(this, { kernels, history, drawing, mode: "group" });
  }

  kindColour(kind) {
    const k = KINDS.indexOf(kind);
    return this.drawing.kinds[k < 0 ? 9 : k];
  }

  servedColour(how) {
    return this.drawing.kinds[Math.max(SERVED.indexOf(how), 0)];
  }

  colourOf(id) {
    if (this.mode === "served") {
      const kernel = this.kernels.byId.get(id);
      return kernel ? this.servedColour(kernel.how) : "";
    }
    const group = this.kernels.groups.get(this.kernels.groupOf.get(id));
    return group ? this.kindColour(group.kind) : "";
  }

  of(item) {
    if (!item.node) return this.ofScope(item);
    const { node } = item, { kernels } = this;
    const kernel = kernels.of(node);
    const group = kernel && kernels.groups.get(node.id);
    const time = kernel && kernel.time ? ` · ${micro(kernel.time)}` : "";
    const lines = [group ? `${group.kind} group${time}` : node.op + time];
    if (group) lines.push(group.ops.join(" · "));
    const style = { lines, mark: this.history.marks.get(node.id), group: kernels.groupOf.get(node.id) };
    if (this.mode !== "time") style.colour = this.colourOf(node.id);
    else if (time) this.heat(style, kernel.time / kernels.longest);
    if (time) style.share = kernel.time / kernels.longest;
    return style;
  }

  ofScope(item) {
    const { counts } = item, { total } = this.kernels;
    const lines = [`${item.leaves} nodes${item.us ? ` · ${micro(item.us)}` : ""}`];
    const marks = ["added", "removed", "changed"].filter((mark) => counts[mark]);
    const signs = { added: "+", removed: "−", changed: "~" };
    if (marks.length) lines.push(marks.map((mark) => signs[mark] + counts[mark]).join("  "));
    const style = { lines, mark: marks.length > 1 ? "changed" : marks[0] };
    if (total) style.share = item.us / total;
    if (this.mode === "time" && item.us) this.heat(style, item.us / total);
    return style;
  }

  heat(style, part) {
    style.colour = this.drawing.kinds[HEAT];
    style.tint = 0.06 + 0.6 * part;
  }

  /* The entries of the legend: text and colour. */
  legend() {
    const entries = new Map();
    if (this.mode === "group") {
      for (const { kind } of this.kernels.groups.values()) entries.set(`${kind} group`, this.kindColour(kind));
    } else if (this.mode === "served") {
      for (const { how } of this.kernels.byId.values()) entries.set(how, this.servedColour(how));
    } else entries.set("darker takes longer", this.drawing.kinds[HEAT]);
    for (const mark of ["added", "removed", "changed"]) entries.set(mark, this.drawing.colours[mark]);
    return [...entries];
  }
}
