"use strict";
const claims = [...document.querySelectorAll(".claim")];
const search = document.getElementById("search");
const selects = [...document.querySelectorAll(".filters select")];
const chips = [...document.querySelectorAll(".chip")];
const shown = document.getElementById("shown");
const nothing = document.getElementById("nothing");
const texts = new Map(claims.map((claim) => [claim, claim.textContent.toLowerCase()]));

function fits(claim, words, outcomes) {
  if (outcomes.length && !outcomes.includes(claim.dataset.outcome)) return false;
  for (const select of selects) {
    const has = claim.dataset[select.name].split(" ");
    if (select.value && !has.includes(select.value)) return false;
  }
  return words.every((word) => texts.get(claim).includes(word));
}

function filter() {
  const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
  const pressed = chips.filter((chip) => chip.getAttribute("aria-pressed") === "true");
  const outcomes = pressed.map((chip) => chip.dataset.outcome);
  let count = 0;
  for (const claim of claims) {
    claim.hidden = !fits(claim, words, outcomes);
    count += claim.hidden ? 0 : 1;
  }
  shown.textContent = `${count} of ${claims.length} claims shown`;
  nothing.hidden = count > 0;
}

function press(chip) {
  chip.setAttribute("aria-pressed", String(chip.getAttribute("aria-pressed") !== "true"));
  filter();
}

function reset() {
  search.value = "";
  selects.forEach((select) => { select.value = ""; });
  chips.forEach((chip) => chip.setAttribute("aria-pressed", "false"));
  filter();
}

function visible() { return claims.filter((claim) => !claim.hidden); }

function toggleAll() {
  const some = visible();
  const open = some.some((claim) => !claim.open);
  some.forEach((claim) => { claim.open = open; });
}

function move(step) {
  const some = visible();
  const at = some.indexOf(document.activeElement.closest(".claim"));
  const next = some[Math.max(0, Math.min(some.length - 1, at + step))];
  if (next) next.querySelector("summary").focus();
}

function reveal() {
  const claim = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (!claim || !claim.matches(".claim")) return;
  if (claim.hidden) reset();
  claim.open = true;
  claim.scrollIntoView();
  claim.querySelector("summary").focus();
}

async function copy(button) {
  const text = button.previousElementSibling.textContent;
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    getSelection().selectAllChildren(button.previousElementSibling);
    button.textContent = "Selected";
  }
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const typing = event.target.matches("input, select");
  if (event.key === "Escape" && event.target === search) reset();
  else if (typing) return;
  else if (event.key === "/") { event.preventDefault(); search.focus(); }
  else if (event.key === "j") move(1);
  else if (event.key === "k") move(-1);
});
document.addEventListener("click", (event) => {
  const button = event.target.closest("button");
  if (!button) return;
  if (button.matches(".chip")) press(button);
  else if (button.id === "reset") reset();
  else if (button.id === "all") toggleAll();
  else if (button.matches(".copy")) copy(button);
});
search.addEventListener("input", filter);
selects.forEach((select) => select.addEventListener("change", filter));
window.addEventListener("hashchange", reveal);
document.querySelector(".filters").hidden = false;
filter();
reveal();
