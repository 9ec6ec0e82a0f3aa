// Datasette closes every open <details> that a click is outside of, which is right for its menus and wrong for a fold
// that somebody is reading: what was open before the click, and was not clicked itself, is open after it.
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
