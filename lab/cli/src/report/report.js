// Legends that show and hide designs, and values under the pointer.
(function () {
  "use strict";
  const main = document.querySelector("main"), tooltip = document.getElementById("tooltip");

  document.querySelectorAll(".legend button").forEach((button) => button.addEventListener("click", () => {
    const key = button.dataset.series, off = main.classList.toggle("off-" + key);
    document.querySelectorAll(`.legend button[data-series="${key}"]`)
      .forEach((it) => it.setAttribute("aria-pressed", String(!off)));
  }));

  function place(event) {
    tooltip.hidden = false;
    const box = tooltip.getBoundingClientRect(), gap = 16;
    const right = event.clientX + gap + box.width < innerWidth;
    const below = event.clientY + gap + box.height < innerHeight;
    tooltip.style.left = Math.max(4, right ? event.clientX + gap : event.clientX - gap - box.width) + "px";
    tooltip.style.top = Math.max(4, below ? event.clientY + gap : event.clientY - gap - box.height) + "px";
  }

  function shown(svg) {
    return Array.from(svg.querySelectorAll(".series[data-points]"))
      .filter((it) => getComputedStyle(it).display !== "none")
      .map((it) => ({ name: it.dataset.name, points: JSON.parse(it.dataset.points) }));
  }

  // The values of all lines at the point that is nearest to the pointer's x.
  function nearest(lines, x) {
    let best = null;
    lines.forEach((line) => line.points.forEach((point) => {
      if (best === null || Math.abs(point[0] - x) < Math.abs(best[0] - x)) best = point;
    }));
    if (best === null) return null;
    const rows = lines.map((line) => ({ name: line.name, point: line.points.find((it) => it[0] === best[0]) }))
      .filter((row) => row.point).sort((a, b) => a.point[1] - b.point[1]);
    return { x: best[0], title: best[2], rows };
  }

  function told(found, unit) {
    tooltip.textContent = "";
    const title = document.createElement("b");
    title.textContent = found.title + " " + unit;
    tooltip.append(title);
    found.rows.forEach((row) => {
      const made = document.createElement("div"), name = document.createElement("span"), value = document.createElement("span");
      made.className = "row";
      name.textContent = row.name;
      value.textContent = row.point[3];
      made.append(name, value);
      tooltip.append(made);
    });
  }

  document.querySelectorAll("svg.plot").forEach((svg) => {
    const rule = svg.querySelector(".rule"), titles = svg.querySelectorAll(".axis-title");
    const unit = titles.length ? titles[titles.length - 1].textContent : "";
    function leave() {
      tooltip.hidden = true;
      if (rule) rule.setAttribute("visibility", "hidden");
    }
    svg.addEventListener("pointermove", (event) => {
      const tip = event.target.dataset ? event.target.dataset.tip : "";
      if (tip) {
        tooltip.textContent = tip;
        return place(event);
      }
      const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
      const inside = rule && at.x >= Number(svg.dataset.left) - 12 && at.x <= Number(svg.dataset.right) + 12 &&
        at.y >= Number(svg.dataset.top) - 12 && at.y <= Number(svg.dataset.bottom) + 12;
      const found = inside ? nearest(shown(svg), at.x) : null;
      if (!found) return leave();
      rule.setAttribute("x1", found.x);
      rule.setAttribute("x2", found.x);
      rule.setAttribute("visibility", "visible");
      told(found, unit);
      place(event);
    });
    svg.addEventListener("pointerleave", leave);
  });
})();
