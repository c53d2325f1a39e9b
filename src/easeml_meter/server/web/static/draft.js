"use strict";
// A screen reader hears the number of labels, or what is wrong, and not the whole plan each time.
document.addEventListener("htmx:after:swap", () => {
  const said = document.querySelector("#plan .problem, #plan .labels");
  document.getElementById("heard").textContent = said?.textContent ?? "";
});
