// Zoom, pan and hover of a picture.
(function () {
  "use strict";
  const NS = "http://www.w3.org/2000/svg";
  const MOST = 4096, MOST_HIGH = 4;

  function element(name, attributes, parent) {
    const made = document.createElementNS(NS, name);
    for (const key in attributes) made.setAttribute(key, attributes[key]);
    if (parent) parent.appendChild(made);
    return made;
  }

  function start(svg) {
    const tip = element("g", { class: "tip", visibility: "hidden" }, svg);
    const point = (event) => new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
    svg.querySelectorAll(".pane").forEach((pane) => startPane(svg, pane, tip, point));
  }

  function showTip(svg, tip, at, text) {
    tip.textContent = "";
    const box = element("rect", { rx: 4 }, tip);
    const lines = text.split("\n");
    const texts = lines.map((line, index) => {
      const made = element("text", { x: 9, y: 19 + index * 17, class: index === 0 ? "data" : "" }, tip);
      made.textContent = line;
      return made;
    });
    const width = Math.max(...texts.map((it) => it.getComputedTextLength())) + 18, height = lines.length * 17 + 11;
    box.setAttribute("width", width);
    box.setAttribute("height", height);
    const all = svg.viewBox.baseVal;
    const x = Math.max(2, Math.min(at.x + 14, all.width - width - 2));
    const y = at.y + 18 + height > all.height ? at.y - height - 10 : at.y + 18;
    tip.setAttribute("transform", `translate(${x},${y})`);
    tip.setAttribute("visibility", "visible");
  }

  function startPane(svg, pane, tip, point) {
    const window = pane.querySelector(".window"), view = pane.querySelector(".view");
    const marks = Array.from(pane.querySelectorAll("[data-y]"));
    const patterns = Array.from(svg.querySelectorAll(`pattern[data-pane="${pane.dataset.pane}"]`));
    const left = Number(window.getAttribute("x")), width = Number(window.getAttribute("width"));
    const height = Number(window.getAttribute("height")), lineBytes = BigInt(pane.dataset.lineBytes);
    const top = Number(pane.dataset.top);
    const state = { zoom: 1, x: 0, y: 0 };
    const high = () => Math.min(state.zoom, MOST_HIGH);

    function draw() {
      const zoom = state.zoom, tall = high();
      state.x = Math.min(0, Math.max(state.x, width - width * zoom));
      state.y = Math.min(0, Math.max(state.y, height - height * tall));
      view.setAttribute("transform", `matrix(${zoom} 0 0 ${tall} ${state.x} ${state.y})`);
      patterns.forEach((it) => it.setAttribute("patternTransform", `scale(${1 / zoom} ${1 / tall})`));
      marks.forEach(mark);
    }

    function mark(it) {
      const y = Number(it.dataset.y) * high() + state.y;
      it.setAttribute("y", y + 4);
      it.setAttribute("visibility", y < 0 || y > height ? "hidden" : "visible");
      if (it.dataset.start) {
        const offset = BigInt(Math.floor((-state.x / state.zoom / width) * 2 ** 40)) * lineBytes >> 40n;
        // Down to a page.
        const address = (BigInt(it.dataset.start) + offset) >> 12n << 12n;
        it.textContent = "0x" + address.toString(16).padStart(Number(pane.dataset.digits), "0");
      }
    }

    function zoomAt(x, y, factor) {
      const before = high(), next = Math.max(1, Math.min(MOST, state.zoom * factor));
      state.x = x - (x - state.x) * (next / state.zoom);
      state.zoom = next;
      state.y = y - (y - state.y) * (high() / before);
      draw();
    }

    function pan(x, y) {
      state.x += x;
      state.y += y;
      draw();
    }

    function act(name) {
      if (name === "in") zoomAt(width / 2, height / 2, 2);
      if (name === "out") zoomAt(width / 2, height / 2, 0.5);
      if (name === "all") { state.zoom = 1; draw(); }
    }

    window.addEventListener("wheel", (event) => {
      event.preventDefault();
      const at = point(event);
      zoomAt(at.x - left, at.y - top, Math.exp(-event.deltaY / 400));
    }, { passive: false });
    let drag = null;
    window.addEventListener("pointerdown", (event) => {
      drag = point(event);
      window.setPointerCapture(event.pointerId);
      window.classList.add("dragging");
    });
    window.addEventListener("pointermove", (event) => {
      if (!drag) return;
      const at = point(event);
      pan(at.x - drag.x, at.y - drag.y);
      drag = at;
    });
    ["pointerup", "pointercancel"].forEach((name) => window.addEventListener(name, () => {
      drag = null;
      window.classList.remove("dragging");
    }));
    window.addEventListener("dblclick", (event) => {
      const at = point(event);
      zoomAt(at.x - left, at.y - top, event.shiftKey ? 0.25 : 4);
    });
    pane.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: [80, 0], ArrowRight: [-80, 0], ArrowUp: [0, 40], ArrowDown: [0, -40] }[event.key];
      const name = { "+": "in", "=": "in", "-": "out", "0": "all", Escape: "all" }[event.key];
      if (step && state.zoom > 1) pan(step[0], step[1]);
      else if (name) act(name);
      else return;
      event.preventDefault();
    });
    pane.querySelectorAll(".button").forEach((button) => {
      button.addEventListener("click", () => act(button.dataset.act));
      button.addEventListener("keydown", (event) => {
        if (event.key !== "Enter" && event.key !== " ") return;
        event.preventDefault();
        act(button.dataset.act);
      });
    });
    view.addEventListener("pointermove", (event) => {
      const title = event.target.querySelector ? event.target.querySelector("title") : null;
      if (title) {
        // Taken out, or the browser would show it as well.
        event.target.dataset.tip = title.textContent;
        event.target.removeChild(title);
      }
      const text = event.target.dataset.tip;
      if (text) showTip(svg, tip, point(event), text);
      else tip.setAttribute("visibility", "hidden");
    });
    view.addEventListener("pointerleave", () => tip.setAttribute("visibility", "hidden"));
    draw();
  }

  start(document.documentElement);
})();
