// Datasette closes every open <details> when a click is outside of it, as its menus need. A fold of ours that was open
// before such a click is opened again.
let folds = [];
addEventListener(
  "click",
  (event) => {
    folds = [...document.querySelectorAll("details.ingest-fold[open]")].filter(
      (fold) => !fold.querySelector(":scope > summary").contains(event.target),
    );
  },
  { capture: true },
);
addEventListener("click", () => folds.forEach((fold) => (fold.open = true)));
