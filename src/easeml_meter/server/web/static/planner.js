"use strict";
let compared = false;
document.addEventListener("toggle", ({ target }) => {
  if (target.id === "compares") compared = target.open;
}, true);
// The address always is the link to what the page shows, and results can be copied.
document.addEventListener("htmx:after:swap", () => {
  // A screen reader hears the number, or what is wrong, and not the whole page at every change.
  const said = document.querySelector("#answer .problem, #answer .labels");
  document.getElementById("heard").textContent = said?.textContent ?? "";
  const compares = document.getElementById("compares");
  if (compares) compares.open = compared;
  const link = document.getElementById("link");
  if (link) history.replaceState(null, "", link.href);
});

document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  const source = document.getElementById(button.dataset.copy);
  const said = document.querySelector("[data-copied]");
  try {
    await navigator.clipboard.writeText(source.href ?? source.textContent);
    said.textContent = "Copied.";
  } catch {
    // Without https a browser gives no clipboard; what is selected can be copied by hand.
    getSelection().selectAllChildren(source);
    said.textContent = "Selected: copy it with your keyboard.";
  }
});
