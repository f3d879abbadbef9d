// Legends that show and hide designs.
(function () {
  "use strict";
  const main = document.querySelector("main");

  document.querySelectorAll(".legend button").forEach((button) => button.addEventListener("click", () => {
    const key = button.dataset.series, off = main.classList.toggle("off-" + key);
    document.querySelectorAll(`.legend button[data-series="${key}"]`)
      .forEach((it) => it.setAttribute("aria-pressed", String(!off)));
  }));
})();
