"use strict";
/* What the keys, the mouse and the panels do. */

function press(page, button, on) {
  $(button).setAttribute("aria-pressed", on);
  page.update(page.middleItem());
}

const ACTIONS = {
  f: (page) => { page.drawing.fit(); page.draw(); },
  e: (page) => { if (page.expandLevel()) page.update(page.middleItem()); },
  c: (page) => { page.opened.clear(); page.layout(); page.drawing.start(); page.draw(); },
  k: (page) => { page.constants = !page.constants; press(page, "constants", page.constants); },
  d: (page) => { page.onlyChanges = !page.onlyChanges; press(page, "changes", page.onlyChanges); },
  t: (page) => page.setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark"),
  "?": () => $("keys").showModal(),
  "/": () => $("search").focus(),
  "+": (page) => { page.drawing.zoom(1.25, page.drawing.width / 2, page.drawing.height / 2); page.draw(); },
  "-": (page) => { page.drawing.zoom(0.8, page.drawing.width / 2, page.drawing.height / 2); page.draw(); },
  ArrowLeft: (page, event) => (event.shiftKey ? page.step(-1) : page.goToPass(page.history.nextChange(-1))),
  ArrowRight: (page, event) => (event.shiftKey ? page.step(1) : page.goToPass(page.history.nextChange(1))),
  Home: (page) => page.goToPass(0),
  End: (page) => page.goToPass(page.history.passes.length - 1),
  Escape: (page) => { page.select(null, false); page.showNode(); },
};

function listenToKeys(page) {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || $("keys").open) return;
    if (event.target === $("search")) {
      if (event.key === "Escape") {
        $("search").value = "";
        page.showFound();
        $("search").blur();
      } else if (event.key === "Enter" && page.results && page.results.length) page.take(page.results[0].id);
      return;
    }
    const action = ACTIONS[event.key === "=" ? "+" : event.key];
    if (!action) return;
    event.preventDefault();
    action(page, event);
  });
  const buttons = { fit: "f", expand: "e", collapse: "c", constants: "k", changes: "d", theme: "t", help: "?",
    back: "ArrowLeft", forth: "ArrowRight" };
  for (const [button, key] of Object.entries(buttons)) {
    $(button).addEventListener("click", (event) => ACTIONS[key](page, event));
  }
}

function listenToMouse(page) {
  const canvas = $("graph"), { drawing } = page;
  let held = null;
  const place = (event) => {
    const box = canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  canvas.addEventListener("pointerdown", (event) => {
    held = { at: place(event), moved: false };
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    const at = place(event);
    if (!held) {
      showHint(page, drawing.itemAt(...at), at);
      return;
    }
    const [dx, dy] = [at[0] - held.at[0], at[1] - held.at[1]];
    if (!held.moved && Math.hypot(dx, dy) < 4) return;
    held.moved = true;
    canvas.classList.add("dragging");
    drawing.x -= dx / drawing.scale;
    drawing.y -= dy / drawing.scale;
    held.at = at;
    page.draw();
  });
  canvas.addEventListener("pointerup", (event) => {
    canvas.classList.remove("dragging");
    if (held && !held.moved) {
      const item = drawing.itemAt(...place(event));
      if (item && item.node) page.select(item.node.id, false);
      else if (item) page.selectScope(item);
      else page.select(null, false);
    }
    held = null;
  });
  canvas.addEventListener("pointerleave", () => { $("hint").hidden = true; });
  canvas.addEventListener("dblclick", (event) => {
    const item = drawing.itemAt(...place(event));
    if (item && !item.node) page.toggle(item);
  });
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    drawing.zoom(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.0015)), ...place(event));
    page.draw();
  }, { passive: false });
  $("minimap").addEventListener("pointerdown", (event) => {
    drawing.moveTo(event.offsetX, event.offsetY);
    page.draw();
  });
}

function showHint(page, item, [x, y]) {
  const hint = $("hint");
  hint.hidden = !item || item.open;
  if (hint.hidden) return;
  hint.textContent = [item.path, ...page.drawing.styleOf(item).lines].join("\n");
  hint.style.left = `${Math.min(x + 14, page.drawing.width - 300)}px`;
  hint.style.top = `${Math.min(y + 16, page.drawing.height - 80)}px`;
}

function listenToPanels(page) {
  for (const tab of TABS) {
    document.querySelector(`[data-tab="${tab}"]`).addEventListener("click", () => page.showTab(tab));
  }
  $("slider").addEventListener("input", () => page.goToPass(Number($("slider").value)));
  $("search").addEventListener("input", () => page.showFound());
  $("search").addEventListener("focus", () => page.showFound());
  $("search").addEventListener("blur", () => { $("found").hidden = true; });
  $("changing").addEventListener("change", () => {
    page.onlyChanging = $("changing").checked;
    page.showPasses();
  });
  $("colours").addEventListener("change", () => {
    page.styles.mode = $("colours").value;
    page.restyle();
  });
  new ResizeObserver(() => { page.drawing.resize(); page.draw(); }).observe($("graph"));
}
